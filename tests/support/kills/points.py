"""Preload of execution environments (LAYOVER_LOCAL_PRELOAD): where a process may be made to die.

Every piece of I/O that Layover does, and every tool, is traced by the owner of the run that it is for:
`<hash>.trace` in LAYOVER_TORTURE_FOLDER gets a line when it begins and one when it ends. If
`<hash>.kill` names the point that is reached, the process kills itself. An owner with `<hash>.untraced` is
left out.

Only the lowest I/O methods are wrapped, only in this process, and they behave as before. Reading requests are
left out: they change nothing, and clients may ask any number of times."""

import fcntl
import functools
import json
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

_OWNED = re.compile(r"^(?:U#|u/)([0-9a-f]{32})")
_IDS = re.compile(r"/(threads|runs|tool-calls)/[^/?]+")
ATTEMPTS = 5
"""Without a step; then the sweeper gives a run up."""
_last_owner = ""
_request = ""
_owner = ContextVar("_owner", default="")
"""Whose item a task is about: the sweeper looks at the items of several users side by side."""
_state = ContextVar("_state", default="")
"""State of the item that a task is about."""


def install() -> None:
    """Wrap what does I/O; send what goes over the network through the test's proxies, if it has some."""
    for name, proxy in json.loads(os.environ.get("LAYOVER_TORTURE_PROXIES", "{}")).items():
        _put(_folder() / f"behind-{name}", os.environ.get(name, ""))
        os.environ[name] = proxy
    from layover.adapters.blobs.s3 import S3Blobs
    from layover.adapters.callbacks.stepfunctions import StepFunctions
    from layover.adapters.journal.items.dynamodb import DynamoTable
    from layover.adapters.sockets.apigateway import ApiGatewaySockets
    from layover.adapters.store.postgres.database import Database
    from layover.declare.tools.tool import Tool
    from layover.plugins.models.openai_chat import OpenAIChat
    from layover.plugins.people.channels.mail.sender import MailSender
    from layover.plugins.people.channels.slack.sender import SlackSender
    from layover.plugins.reach.mcp.servers import McpServers

    for name in ("get", "query"):
        _wrap(DynamoTable, name, lambda pk, sk, *_: (_hash(pk), _shown(sk)))
    _wrap(DynamoTable, "query_index", lambda pk, prefix: (_hash(pk), prefix.partition("#")[0]))
    _wrap(DynamoTable, "write", lambda action: (_hash(action.pk), _written(action)))
    _wrap(DynamoTable, "transact", _transaction)
    _wrap_due(DynamoTable)
    _wrap(Database, "run", lambda owner, *all_: (_of(owner), "+".join(s.query.name for s in all_)))
    for name in ("get", "put", "delete_prefix"):
        _wrap(S3Blobs, name, lambda key, *_: (_hash(key), ""))
    _wrap(StepFunctions, "start", lambda owner, run_id, n: (_of(owner), str(n)))
    for name in ("wake", "stop", "alive", "publish"):
        _wrap(StepFunctions, name, lambda *_: ("", ""))
    _wrap(ApiGatewaySockets, "post", lambda *_: ("", ""))
    _wrap(SlackSender, "_ask_as", lambda token, method, *_: ("", method))
    _wrap(MailSender, "send", lambda address, *_: ("", address.to))
    _wrap(OpenAIChat, "complete", lambda prompt, *_: ("", prompt.task))
    _wrap(McpServers, "list_tools", lambda endpoint: ("", endpoint.name))
    _wrap(McpServers, "call", lambda endpoint, tool, args, *_: ("", args["order"]))
    _wrap(Tool, "invoke", lambda args, ctx: (_of(ctx.resource_id), ctx.tool_call_id))
    if _function() == "api":
        _name_requests()


Describe = Callable[..., tuple[str, str]]
"""Arguments -> (hash of the owner or "", what it is about)."""


def _wrap(owner: type, name: str, describe: Describe) -> None:
    work = getattr(owner, name)

    @functools.wraps(work)
    async def traced(self: Any, *args: Any, **more: Any) -> Any:
        global _last_owner
        found, about = describe(*args)
        if found:
            _owner.set(found)
            _last_owner = found
        named = _owner.get() or _last_owner
        # A write that a process makes once, for whichever user, is part of no run's story.
        if not named or _request.startswith("GET ") or about.startswith("MARK#"):
            return await work(self, *args, **more)
        trace = _Trace(named)
        what = f"{owner.__name__}.{name}"
        reads = what == "DynamoTable.get"
        point = " ".join(filter(None, [_request, what, about, "" if reads else _state.get()]))
        trace.begin(point)
        result = await work(self, *args, **more)
        trace.end(point)
        if reads and _function() == "sweep":
            _see(about, result)
        return result

    setattr(owner, name, traced)


def _see(about: str, item: Any) -> None:
    """Note the state of the item that the sweeper reads. Its work depends on that state, and its points are
    named by it: it looks at the same run again and again, and how often is a matter of time."""
    if about == "META" and item:
        over = item["status"] not in ("running", "queued")
        seen = {
            item["status"]: True,
            "waiting": item.get("waiting"),
            "decided": item.get("decided"),
            "cancel": item.get("cancel") and not over,
            "lost": item.get("lost_at") and not over,
            "tired": item["attempts"] >= ATTEMPTS,
            "unsaved": item.get("saved") is False,
        }
        _state.set(f"({', '.join(word for word, there in seen.items() if there)})")
    elif about == "HEAD" and item and item.get("deleted"):
        _state.set("(deleted)")


def _wrap_due(table: type) -> None:
    """Trace the sweeper's reading of due items. The items belong to many owners: the reading is a point
    of each of them, and the process dies once they are known (before or after makes no difference to a
    reading)."""
    work = table.due  # type: ignore[attr-defined]

    async def traced(self: Any, *args: Any) -> Any:
        found = await work(self, *args)
        _state.set("")
        for owner in sorted({_hash(pk) for pk, _ in found}):
            trace = _Trace(owner)
            trace.begin("DynamoTable.due")
            trace.end("DynamoTable.due")
        return found

    table.due = traced  # type: ignore[attr-defined]


class _Trace:
    """The control files of one owner."""

    def __init__(self, owner: str) -> None:
        self._stem = _folder() / owner

    def begin(self, point: str) -> None:
        """Note that this function reaches the point. Die before it if an order says so."""
        self._pass(point, "before", ">")

    def end(self, point: str) -> None:
        """Note that this function is through with the point. Die after it if an order says so."""
        self._pass(point, "after", "<X")

    def _pass(self, point: str, when: str, marks: str) -> None:
        """Number the beginnings and the ends apart: a transaction that another process's write refuses
        begins a second time and ends once."""
        # Every pass reads the whole trace: for thousands of threads of one owner, that would take most of the
        # time.
        if self._stem.with_suffix(".untraced").exists():
            return
        about = f"\t{_function()}\t{point}\t"
        with self._stem.with_suffix(".trace").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            k = 1 + sum(line[0] in marks and line[1:].startswith(about) for line in file)
            dies = self._is_ordered(point, k, when)
            signs = {"before": ">x" if dies else ">", "after": "X" if dies else "<"}[when]
            for mark in signs:
                file.write(f"{mark}{about}{k}\t{os.getpid()}\t{time.time():.3f}\n")
        if dies:
            with (_folder() / "dead").open("a") as file:
                file.write(f"{os.getpid()}\n")
            _die()

    def _is_ordered(self, point: str, k: int, when: str) -> bool:
        """Return whether an order of the file has this process die here."""
        try:
            orders = json.loads(self._stem.with_suffix(".kill").read_text())
        except FileNotFoundError:
            return False
        # Counted here, not by the process that gives the order: that would come late on a busy machine.
        return any(
            (order["function"], order["when"]) == (_function(), when)
            and fnmatchcase(point, order["point"])
            and 0 <= k - order["k"] < order["times"]
            for order in orders
        )


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _folder() -> Path:
    return Path(os.environ["LAYOVER_TORTURE_FOLDER"])


def _put(path: Path, text: str) -> None:
    """Write a file that is never seen half written."""
    made = path.with_name(f"{path.name}.{os.getpid()}")
    made.write_text(text)
    made.rename(path)


def _function() -> str:
    return os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")


def _hash(key: str) -> str:
    found = _OWNED.match(key)
    return found[1] if found else ""


def _of(owner: str) -> str:
    from layover.keys import Keys

    return Keys(owner).hash


def _shown(sort_key: str) -> str:
    """A sort key without what differs from run to run."""
    # Frames that run side by side number their records of hooks in the order in which they come to them.
    numbered = re.sub(r"#CALL#hooks_\d+", "#CALL#hooks", sort_key)
    kinds = "EVENT|ERASED|SUB|DUE|AUDIT|TOLD|TOLD_LINK|OPERATIONS|CONSENT"
    return re.sub(rf"({kinds})#.*", r"\1", numbered)


def _written(action: Any) -> str:
    """The sort key, and the state that a call gets."""
    state = getattr(action, "item", {}).get("state") or ("decided" if _decides(action) else "")
    return _shown(action.sk) + (f"={state}" if state else "")


def _decides(action: Any) -> bool:
    return "#CALL#" in action.sk and "decision" in getattr(action, "set", {})


def _transaction(actions: Sequence[Any], *_: Any) -> tuple[str, str]:
    return _hash(actions[0].pk), " ".join(_written(a) for a in actions)


def _name_requests() -> None:
    """Points of `api` begin with the request that they are part of."""
    from functions.api import app

    answer = app.answer

    def named(event: Any, *rest: Any) -> Any:
        global _request, _last_owner
        _owner.set("")
        http = event["requestContext"]["http"]
        path = re.sub(r"/decide/.+", "/decide", _IDS.sub(r"/\1", event.get("rawPath", "")))
        _request = f"{http['method']} {path}"
        _last_owner = ""
        return answer(event, *rest)

    vars(app)["answer"] = named
