"""Every DynamoDB key and every S3 key, built in one place from the owner.

A foreign id leads to a key that does not exist: isolation by construction (docs/behaviour.md#isolation).
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote, unquote

MAX_PARTITION_KEY, MAX_SORT_KEY = 2_048, 1_024
"""Bytes of DynamoDB's keys."""
MAX_ID = 1_500
"""Bytes of an id that a caller names: it becomes a part of a partition key."""

META = "META"
INPUT = "INPUT"
HEAD = "HEAD"
STEP_PREFIX = "STEP#"
EVENT_PREFIX = "EVENT#"
ERASED_PREFIX = "ERASED#"
MESSAGE_PREFIX = "MESSAGE#"
FEEDBACK_PREFIX = "RUN_FEEDBACK#"
"""Sorts behind `MESSAGE_PREFIX`, with nothing between: one query finds what is erased with a thread."""
FEEDBACK = "FEEDBACK"
"""Partition of the watch index with the feedback of all owners, by time. It needs nobody's look."""
SAID_PREFIX = "SAID#"
"""Sorts between META and the steps, so a read of a run's records has them as well."""
DUE_PREFIX = "DUE#"
DUE = "DUE"
"""Partition of the watch index with data that may have outlived its use (`ports.Due`). It is separate so that
runs never wait behind data that only needs tidying up."""
GRANT_PREFIX = "GRANT#"
CONSENT_PREFIX = "CONSENT#"
CONNECTION = "CONNECTION"
TOLD_PREFIX = "TOLD#"
LINK_PREFIX = "TOLD_LINK#"
"""Both sort behind the steps, so that a read of a run's records does not read them."""
SPENT = "SPENT"
RATE = "RATE"
LEASES = "LEASES"
"""Partition of the leases that count for all users together. It has no owner."""
REQUEST = "REQUEST"
SWITCH = "STOP"
OPERATORS = "OPERATORS"
"""Partition of what operators are told of, and who owns the sweeper's looks at it."""
"""Both keys of the one item that stops everything while it exists. It has no owner: it is the operator's."""


WATCHES = 4
"""Partitions of the watch index: a partition takes 1,000 writes a second."""


def watch_partitions() -> list[str]:
    """Return all partitions of the watch index with runs and connections, for the sweeper."""
    return [f"WATCH#{n}" for n in range(WATCHES)]


def deletion_partitions() -> list[str]:
    """Return all partitions of the watch index with deleted threads, for the sweeper."""
    return [f"DELETE#{n}" for n in range(WATCHES)]


def over_partitions(status: str) -> list[str]:
    """Return all partitions of the watch index with the runs that ended with this status, the newest first
    in each. They need nobody's look."""
    return [f"OVER#{status}#{n}" for n in range(WATCHES)]


def over_partition(status: str, run_id: str) -> str:
    """Return the partition of the watch index that a run belongs to once it is over."""
    return over_partitions(status)[_number(run_id) % WATCHES]


def watch_partition(run_id: str) -> str:
    """Return the partition of the watch index that a run belongs to until it is retired."""
    return watch_partitions()[_number(run_id) % WATCHES]


def owner_part(pk: str) -> str:
    """Return the part of a partition's key that names its owner; "" if none does."""
    kind, _, rest = pk.partition("#")
    return rest.partition("#")[0] if kind == "U" else ""


def run_of(pk: str) -> str | None:
    """Return the id of the run whose partition this is; None if it is not a run's."""
    owner, is_run, run_id = pk.partition("#RUN#")
    return run_id if is_run and owner.startswith("U#") else None


def can_be_id(text: str) -> bool:
    """Return whether something may have this id: a text that a caller made up may be one that no store takes.
    Such a thing does not exist, and the stores need not be asked."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return 0 < size <= MAX_ID and "\0" not in text


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def run_partition(owner_hash: str, run_id: str) -> str:
    """Partition of a run, for whoever has only the hash of its owner."""
    return f"U#{owner_hash}#RUN#{run_id}"


@lru_cache(64)
def _hash(owner: str) -> str:
    """Return an owner's hash. A turn asks for keys of one owner in many places."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Keys:
    """Keys of one owner (the verified token's `sub`, or the execution's input)."""

    owner: str
    hash: str = field(init=False, repr=False, compare=False)
    """32 hexadecimal digits that stand for the owner."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", _hash(self.owner))

    @property
    def partition(self) -> str:
        """Partition of the owner's index (GSI `gsi1`)."""
        return f"U#{self.hash}"

    def run(self, run_id: str) -> str:
        """Partition of a run: META, STEP#..., EVENT#..."""
        return run_partition(self.hash, run_id)

    def thread(self, thread_id: str) -> str:
        """Partition of a thread: HEAD, MESSAGE#..., RUN_FEEDBACK#..."""
        return f"U#{self.hash}#THREAD#{thread_id}"

    def watch(self, run_id: str) -> str:
        """Partition of the watch index that a run belongs to."""
        return watch_partition(run_id)

    @property
    def deletions(self) -> str:
        """Partition of the watch index with the owner's deleted threads: one, so that an owner with
        thousands of them delays the deletions of few others."""
        return deletion_partitions()[_number(self.partition) % WATCHES]

    def idempotency(self, key: str) -> str:
        """Partition of a request key. The caller's text is hashed, because it may be long or odd."""
        return f"U#{self.hash}#IDEMPOTENCY#{hashlib.sha256(key.encode()).hexdigest()}"

    def day(self, day: datetime) -> str:
        """Partition of the owner's use on a day: SPENT."""
        return f"U#{self.hash}#DAY#{day:%Y-%m-%d}"

    def minute(self, minute: datetime) -> str:
        """Partition of the owner's count of runs in a minute: RATE."""
        return f"U#{self.hash}#MINUTE#{minute:%Y-%m-%dT%H:%M}"

    @property
    def grants(self) -> str:
        """Partition of the owner's grants at other services, and of requests for consent."""
        return f"U#{self.hash}#GRANTS"

    @property
    def leases(self) -> str:
        """Partition of the owner's leases: an item for each kind."""
        return f"U#{self.hash}#LEASES"

    def of_thread(self, thread_id: str) -> str:
        """Prefix of the objects in S3 that lead to all others of a thread: its runs' bodies, and the marks of
        its files and of its nodes' memory."""
        return self.blob("threads", thread_id) + "/"

    def bodies(self, thread_id: str, run_id: str = "") -> str:
        """Prefix of a run's objects in S3 (without `run_id`: of all runs of the thread). It is below the
        thread, so that deleting the thread finds them even when the run's records have expired."""
        return self.blob("threads", thread_id, "runs", *([run_id] if run_id else ())) + "/"

    def blob(self, *segments: str) -> str:
        """An S3 key below the owner's prefix; each segment is percent-encoded."""
        return "/".join(["u", self.hash, *(encode_id(s) for s in segments)])


_is_plain = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch


@lru_cache(1_000)
def encode_id(text: str) -> str:
    """Return an id as keys have it: percent-encoded. Nearly every id stays as it is. A turn asks for the same
    few over and over."""
    return text if _is_plain(text) else quote(text, safe="")


POINTER = "OWNER"


def group_partition(group: str) -> str:
    """Partition of the marks of the rules that name a group."""
    return f"GROUP#{hashlib.sha256(group.encode()).hexdigest()[:32]}"


def rule_name(groups: Iterable[str]) -> str:
    """One name for a set of groups."""
    text = "\n".join(sorted(set(groups)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def approver_partition(rule: str) -> str:
    """Partition of the watch index with the calls that wait for a member of these groups."""
    return f"APPROVERS#{rule}"


def pointer_partition(run_id: str) -> str:
    """Partition of the pointer from a run to its owner. It has no owner itself: an approver knows only the
    run, and anybody else learns nothing."""
    return f"RUN#{run_id}"


AUDIT = "AUDIT"
"""Partition of the marks of days with decisions. The audit has no owner: erasing a user, a thread or a run
leaves it."""
AUDITS = 4
"""Partitions of a day's decisions: a partition takes 1,000 writes a second."""


OPERATIONS = "OPERATIONS"
"""Partition of the marks of days on which operators acted. It has no owner, as the audit."""


def audit_partition(book: str, day: str, run_id: str) -> str:
    """Partition of a run's rows of a UTC day (`2026-01-31`) in `AUDIT` or `OPERATIONS`."""
    return audit_partitions(book, day)[_number(run_id) % AUDITS]


def audit_partitions(book: str, day: str) -> list[str]:
    """Return all partitions of a day."""
    return [f"{book}#{day}#{n}" for n in range(AUDITS)]


def audit_key(book: str, at: str, run_id: str, unique: str) -> str:
    """Sort key of one row: by time."""
    return f"{book}#{at}#{run_id}#{unique}"


def mark_key(text: str) -> str:
    """Sort key of a mark: another item is to be found under this name."""
    return f"MARK#{text}"


def step_key(path: str, index: int) -> str:
    """Sort key of a step. `path` is "" for the run itself, `<call key>/` for a sub-agent's."""
    return f"{path}{STEP_PREFIX}{index:04d}"


def call_key(step: str, tool_call_id: str) -> str:
    """Sort key of a call; the provider's id is percent-encoded so that `#` and `/` stay ours."""
    return f"{step}#CALL#{encode_id(tool_call_id)}"


def child_path(call: str) -> str:
    """Path of the steps and calls of a sub-agent that runs in the call of this key."""
    return f"{call}/"


def path_of(key: str) -> str:
    """Path of a step's or a call's key: "" for the run's own, else the sub-agent's."""
    return key[: key.rfind("/") + 1]


def parent_call_of(key: str) -> str | None:
    """Id of the call that the sub-agent of this key, or path, works in; None for the run's own."""
    path = path_of(key)
    return unquote(path.removesuffix("/").rpartition("#CALL#")[2]) if path else None


def said_key(number: int) -> str:
    """Sort key of a message that the run was sent after its input; the first has number 1."""
    return f"{SAID_PREFIX}{number:04d}"


def event_key(seq: int) -> str:
    """Sort key of the batch whose first event has this `seq`."""
    return f"{EVENT_PREFIX}{seq:09d}"


def due_key(kind: str, name: str) -> str:
    """Sort key, in the owner's partition, of a thing that the sweeper looks at when its time is over."""
    return f"{DUE_PREFIX}{kind}#{name}"


def erased_key(run_id: str) -> str:
    """Sort key, in the partition of a thread's tombstone, of a run whose records were erased."""
    return f"{ERASED_PREFIX}{run_id}"


def feedback_key(run_id: str) -> str:
    """Sort key, next to a thread's head, of the feedback on a run."""
    return f"{FEEDBACK_PREFIX}{run_id}"


def grant_key(connection: str) -> str:
    """Sort key, in the owner's partition of grants, of the one at a connection."""
    return f"{GRANT_PREFIX}{connection}"


def consent_key(state: str) -> str:
    """Sort key, in the owner's partition of grants, of a request for consent. Its state is hashed: it is a
    secret."""
    return f"{CONSENT_PREFIX}{hashlib.sha256(state.encode('utf-8', 'surrogatepass')).hexdigest()}"


def told_key(call: str, delivery: str) -> str:
    """Sort key, in a run's partition, of a message that told people about a call of it."""
    return f"{TOLD_PREFIX}{call}#{delivery}"


def link_key(secret: str) -> str:
    """Sort key, in a run's partition, of a link that decides one of its calls. The secret is hashed."""
    return f"{LINK_PREFIX}{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()}"


def outage_key(id: str) -> str:
    """Sort key, in the partition of operators, of the failures of one kind."""
    return f"OUTAGE#{id}"


def press_key(signature: str) -> str:
    """Partition of a request of Slack's that was accepted. It has no owner, and holds nothing of the request:
    its signature is hashed."""
    return f"PRESS#{hashlib.sha256(signature.encode('utf-8', 'surrogatepass')).hexdigest()}"


def message_key(text: str) -> str:
    """Sort key, next to a thread's head, of a client's own id of a message; it is hashed, it may be long or
    odd."""
    return f"{MESSAGE_PREFIX}{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def subscription_key(connection_id: str) -> str:
    """Sort key, in a run's partition, of a connection that follows it."""
    return f"SUB#{connection_id}"


def ticket_key(text: str) -> str:
    """Partition of a ticket: its text begins with the owner's hash."""
    owner_hash, _, _ = text.partition(".")
    return f"U#{owner_hash}#TICKET#{hashlib.sha256(text.encode()).hexdigest()}"


def connection_key(connection_id: str) -> str:
    """Partition of a connection. The one key without an owner: `$disconnect` knows only the id, which is API
    Gateway's own and never chosen by a caller."""
    return f"CONN#{connection_id}"
