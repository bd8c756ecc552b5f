"""Runs that are told where to die, and what has to be true of every one of them when it is over.

A *point* is the k-th time that one function does one thing for one owner, before or after it is done
(`kill_points`). Points are read from what runs without a kill did; nothing is listed by hand."""

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from e2e_kit import Answer, Brain, Caller, Json, System, unique
from fake_openai import Reply, calls, delta, say, stream
from layover.keys import Keys

DEADLINE_S = 90.0
"""For a whole run, with whatever happens to it."""
STOP_S = 60.0
IDEMPOTENT = frozenset({"look_up"})
UNWATCHED = frozenset({"sweep", "migrate"})
"""Functions that run by the clock: what they do is not part of one run's story."""
CLOCKED = frozenset({"DynamoTable.write EVENT", "DynamoTable.get META"})
"""What is done every so often."""
OVER = ("success", "failed", "cancelled")
_SERVER_ERRORS = range(500, 600)
_SAVED = """select id from messages where resource_id = %s and thread_id = %s
order by created_at, id"""
_USED = """select step, input_tokens, output_tokens from usage where run_id = %s and kind = 'run'
order by step"""


@dataclass(frozen=True)
class Scenario:
    """One way through the engine: what is asked, what the model answers."""

    name: str
    steps: tuple[Reply, ...]
    text: str
    stream: bool = False
    agent: str = "torture"


def _ask(*wanted: tuple[str, str]) -> Reply:
    return calls(*((name, {"order": f"of {call_id}"}, call_id) for name, call_id in wanted))


WINDING = Scenario(
    "winding",
    (
        _ask(("look_up", "c1"), ("charge", "c2")),
        _ask(("refund", "c3"), ("book", "c4"), ("charge", "c5")),
        say("all of it is done"),
    ),
    "please do all of that for my order",
)
"""Two tools at once; then two calls that wait at once, one of them twice, and one behind them."""

STREAMED = Scenario(
    "streamed",
    (
        _ask(("charge", "s1")),
        stream(
            *(delta(word) for word in ("charged ", "and ", "told ", "in ", "pieces")),
            delta(finish="stop"),
            pause_s=0.06,
        ),
    ),
    "please charge it and tell me",
    stream=True,
)
"""Deltas on the way; the last answer comes in pieces, some of them flushed alone."""


@dataclass(frozen=True, order=True)
class Point:
    """Where a process dies."""

    function: str
    point: str
    k: int
    when: str

    def __str__(self) -> str:
        return f"{self.function}: {self.when} {self.point} #{self.k}"


@dataclass(frozen=True)
class Line:
    """One line of a trace: `>` begins, `<` is through, `x` died before it, `X` died after it."""

    mark: str
    function: str
    point: str
    k: int
    pid: int
    at: float


@dataclass
class Story:
    """All that can be seen of one run when it is over."""

    scenario: Scenario
    owner: str
    thread: Json = field(default_factory=dict)
    run: Json = field(default_factory=dict)
    messages: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    approvals: list[Json] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    usage: list[tuple[Any, ...]] = field(default_factory=list)
    ledger: list[Json] = field(default_factory=list)
    trace: list[Line] = field(default_factory=list)
    executions: list[str] = field(default_factory=list)
    killed: bool = False
    seconds: float = 0.0

    @property
    def results(self) -> dict[str, tuple[Any, bool]]:
        """What each call came to."""
        parts = [p for m in self.messages for p in m["content"] if p["type"] == "tool_result"]
        return {p["tool_call_id"]: (p["result"], p["is_error"]) for p in parts}

    @property
    def tools(self) -> dict[str, str]:
        """The tool of each call."""
        parts = [p for m in self.messages for p in m["content"] if p["type"] == "tool_call"]
        return {p["tool_call_id"]: p["tool_name"] for p in parts}

    @property
    def recovery_s(self) -> float:
        """From the kill until the same work is taken up by another process."""
        died = next((i for i, line in enumerate(self.trace) if line.mark in "xX"), None)
        if died is None:
            return 0.0
        death = self.trace[died]
        later = [x for x in self.trace[died:] if x.mark == ">" and x.pid != death.pid]
        same = [x.at for x in later if x.function == death.function]
        return min(same, default=death.at) - death.at

    @property
    def longest_pause_s(self) -> float:
        """The longest time in which nothing at all was done for the run, after the kill."""
        times = [x.at for x in self.trace]
        return max((b - a for a, b in pairwise(times)), default=0.0)


class Torture(System):
    """The whole system, with points to die at."""

    def __init__(self, folder: Path, brain: Brain, **variables: str) -> None:
        super().__init__(folder, brain, agents="torture_agents", checked=False)
        self.control = folder / "control"
        self.control.mkdir(parents=True)
        self.more = variables
        self._lock = threading.Lock()
        self._plans: dict[str, str] = {}

    def _variables(self) -> dict[str, str]:
        ours = {"LAYOVER_LOCAL_PRELOAD": "kill_points", "LAYOVER_TORTURE_FOLDER": str(self.control)}
        return super()._variables() | ours | self.more

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """As any system; after hundreds of runs, on a busy machine, it takes longer."""
        self.process.send_signal(number)
        self.process.wait(STOP_S)
        return self._reap()

    def file(self, owner: str, kind: str) -> Path:
        """A control file of an owner."""
        return self.control / f"{Keys(owner).hash}.{kind}"

    def order_death(self, owner: str, point: Point, times: int = 1) -> None:
        """Have the process that reaches the point die there, so often in a row."""
        wanted = {"function": point.function, "point": point.point, "k": point.k}
        order = json.dumps({**wanted, "when": point.when, "times": times})
        self.file(owner, "kill").write_text(order)

    def died(self, owner: str) -> bool:
        """Whether it did."""
        return self.deaths(owner) > 0

    def deaths(self, owner: str) -> int:
        """How often."""
        return len(list(self.control.glob(f"{Keys(owner).hash}.killed*")))

    def trace(self, owner: str) -> list[Line]:
        """What was done for an owner so far."""
        path = self.file(owner, "trace")
        lines = path.read_text().splitlines() if path.exists() else []
        split = [line.split("\t") for line in lines]
        return [Line(m, f, p, int(k), int(pid), float(at)) for m, f, p, k, pid, at in split]

    def ledger_of(self, owner: str) -> list[Json]:
        """What tools did for an owner."""
        path = self.file(owner, "ledger")
        return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []

    def input_of(self, scenario: Scenario) -> str:
        """The text that the model answers with the scenario's steps."""
        with self._lock:
            if scenario.name not in self._plans:
                self._plans[scenario.name] = self.brain.plan(*scenario.steps, text=scenario.text)
            return self._plans[scenario.name]

    @cached_property
    def states(self) -> Any:
        """Step Functions."""
        return self.aws("stepfunctions")

    @property
    def execution_arn(self) -> str:
        """Of an execution, but for its name."""
        return self.services["state_machine_arn"].replace(":stateMachine:", ":execution:")

    def executions(self, run_id: str) -> list[str]:
        """Status of each execution of a run, the first one first."""
        found: list[str] = []
        while True:
            arn = f"{self.execution_arn}:{run_id}-{len(found) + 1}"
            try:
                found.append(self.states.describe_execution(executionArn=arn)["status"])
            except self.states.exceptions.ExecutionDoesNotExist:
                return found

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows, as the owner of the tables sees them."""
        import psycopg

        with psycopg.connect(self.services["postgres_admin"]) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def saved(self, owner: str, thread: str) -> list[str]:
        """Ids of a thread's messages in the database, in order."""
        return [row[0] for row in self.sql(_SAVED, owner, thread)]

    @contextmanager
    def client(self, owner: str = "") -> Iterator["Client"]:
        """A patient user of the API."""
        caller = Caller(self.url, owner or unique("user"), None)
        try:
            yield Client(self, caller)
        finally:
            caller.close()


class Client:
    """What CONTRACT asks of a client: repeat what failed with 5xx, under the same key; take 409 on a
    decision as done; ask again until the run is over."""

    def __init__(self, system: Torture, caller: Caller) -> None:
        self.system = system
        self.caller = caller
        self.caller.patient = True
        self.name = caller.name
        self._until = time.monotonic() + DEADLINE_S

    def give_until(self, seconds: float) -> None:
        """From now on."""
        self._until = time.monotonic() + seconds

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The first answer that is no server error."""
        while (answer := self.caller.call(method, path, body, **headers)).status in _SERVER_ERRORS:
            assert time.monotonic() < self._until, f"{method} {path}: {answer}"
            time.sleep(0.05)
        return answer

    def want(self, status: int, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Its body."""
        answer = self.ask(method, path, body, **headers)
        assert answer.status == status, f"{method} {path}: {answer}"
        return answer.body

    def thread(self, agent: str = "torture") -> str:
        """A new thread."""
        return str(self.want(201, "POST", "/threads", {"agent": agent})["id"])

    def start(self, thread: str, scenario: Scenario, **more: Any) -> str:
        """A run that was accepted."""
        body = {"input": self.system.input_of(scenario), "stream": scenario.stream, **more}
        path = f"/threads/{thread}/runs"
        run = self.want(202, "POST", path, body, idempotency_key=unique("key"))
        return str(run["id"])

    def run(self, run_id: str, wait: float = 0) -> Json:
        """The run."""
        return dict(self.want(200, "GET", f"/runs/{run_id}?wait={wait:g}"))

    def drive(self, run_id: str) -> Json:
        """Decide whatever waits, until the run is over."""
        done: set[tuple[str, int]] = set()
        while True:
            run = self.run(run_id, 0 if done else 2)
            if run["status"] in OVER:
                return run
            assert time.monotonic() < self._until, f"not over in time: {run}"
            fresh = [p for p in run["pending"] if (p["tool_call_id"], p["attempt"]) not in done]
            for pending in fresh:
                self.decide(run_id, pending)
                done.add((pending["tool_call_id"], pending["attempt"]))
            if not fresh:
                time.sleep(0.05)

    def decide(self, run_id: str, pending: Json) -> None:
        """Approve; of a booking's slots, take `other` first."""
        slot = "other" if pending["attempt"] == 1 else "10:00"
        verdict, body = (
            ("approve", {})
            if pending["kind"] == "approval"
            else ("resume", {"data": {"slot": slot}})
        )
        path = f"/runs/{run_id}/tool-calls/{pending['tool_call_id']}/{verdict}"
        answer = self.ask("POST", path, {**body, "attempt": pending["attempt"]})
        assert answer.status in (202, 409), answer

    def story(self, scenario: Scenario) -> Story:
        """One run from its thread to the end of its execution."""
        story = Story(scenario, self.name)
        began = time.monotonic()
        thread = self.thread(scenario.agent)
        run_id = self.start(thread, scenario)
        story.run = self.drive(run_id)
        story.seconds = time.monotonic() - began
        self.closed(run_id)
        return self.look(story, thread, run_id)

    def closed(self, run_id: str) -> None:
        """Wait until no execution of the run is open."""
        while "RUNNING" in self.system.executions(run_id):
            assert time.monotonic() < self._until, "an execution does not end"
            time.sleep(0.05)

    def look(self, story: Story, thread: str, run_id: str) -> Story:
        """Everything that can be seen of the run by now."""
        system = self.system
        story.run = self.run(run_id)
        story.thread = self.want(200, "GET", f"/threads/{thread}")
        story.messages = self.caller.messages(thread)
        story.events = self.caller.events(run_id)
        story.approvals = self.want(200, "GET", "/approvals")["items"]
        story.executions = system.executions(run_id)
        story.rows = system.saved(self.name, thread)
        story.usage = system.sql(_USED, run_id)
        story.ledger = system.ledger_of(self.name)
        story.trace = system.trace(self.name)
        story.killed = system.died(self.name)
        return story


def points(*stories: Story) -> list[Point]:
    """Every point that any of these runs passed, before and after, in the order of their passing."""
    passed = dict.fromkeys(key for story in stories for key in _passed(story.trace))
    return [Point(*key, when) for key in passed for when in ("before", "after")]


def _passed(trace: Sequence[Line]) -> list[tuple[str, str, int]]:
    begun = [x for x in trace if x.mark == ">" and x.function not in UNWATCHED]
    return [(x.function, x.point, x.k) for x in begun]


def by_the_clock(point: Point, stories: Sequence[Story]) -> bool:
    """Whether a run may do without it: batches of events (and what becomes of each later), polls."""
    if point.k > 1 and point.point in CLOCKED:
        return True
    key = (point.function, point.point, point.k)
    return not all(key in _passed(story.trace) for story in stories)


def spread(all_points: Sequence[Point], count: int) -> list[Point]:
    """So many of them, from the first to the last."""
    step = max(1.0, len(all_points) / count)
    return [all_points[int(i * step)] for i in range(min(count, len(all_points)))]


def in_doubt(story: Story) -> dict[str, bool]:
    """Calls that the killed process may have had open when it died. True: it certainly had."""
    died = next((i for i, line in enumerate(story.trace) if line.mark in "xX"), None)
    if died is None:
        return {}
    pid, open_, begun = story.trace[died].pid, {}, Counter[str]()
    for line in story.trace[: died + 1]:
        if line.pid != pid:
            continue
        begun[line.point] += {">": 1, "<": -1, "x": -1, "X": -1}[line.mark]
        if line.mark in "<X":
            open_.update(_moves(line.point))
    doubt = {call: True for call, is_open in open_.items() if is_open}
    for point in begun.elements():
        doubt.update(dict.fromkeys(_moves(point), False))
    return doubt


def _moves(point: str) -> dict[str, bool]:
    """Calls that a transaction opens (True) or closes."""
    moved: dict[str, bool] = {}
    for word in point.split():
        key, _, state = word.partition("=")
        if "#CALL#" in key and state in ("open", "settled", "waiting"):
            moved[key.rpartition("#CALL#")[2]] = state == "open"
    return moved


def judge(story: Story, baseline: Story) -> None:
    """Fails unless the run ended as the one that nothing happened to."""
    doubt = {c: sure for c, sure in in_doubt(story).items() if story.tools.get(c) not in IDEMPOTENT}
    interrupted = interrupted_in(story)
    assert interrupted <= doubt.keys(), f"interrupted {interrupted}, in doubt {doubt}"
    sure = {call for call, sure in doubt.items() if sure}
    assert sure <= interrupted, f"in doubt {sure}, but interrupted are {interrupted}"
    judge_interrupted(story, baseline, interrupted)


def interrupted_in(story: Story) -> set[str]:
    """Calls of which the model was told that nobody knows."""
    told = "Interrupted: {} may or may not have taken effect"
    found = story.results.items()
    return {c for c, (r, is_error) in found if is_error and r == told.format(story.tools[c])}


def judge_interrupted(story: Story, baseline: Story, interrupted: set[str]) -> None:
    """As the baseline, but for what came of these calls."""
    judge_run(story, baseline, interrupted)
    judge_messages(story)
    judge_events(story, interrupted)
    judge_ledger(story, interrupted)


def judge_run(story: Story, baseline: Story, interrupted: set[str]) -> None:
    """The run's own facts."""
    run, wanted = story.run, baseline.run
    for name in ("status", "finish_reason", "text", "error", "pending", "unexecuted", "output"):
        assert run[name] == wanted[name], f"{name}: {run[name]!r} instead of {wanted[name]!r}"
    assert story.thread["active_run"] is None
    assert story.thread["title"] == baseline.thread["title"]
    assert story.approvals == []
    assert not {"RUNNING"} & set(story.executions)
    shown = [_shown(m, interrupted) for m in story.messages]
    assert shown == [_shown(m, interrupted) for m in baseline.messages]
    if not interrupted:
        assert run["usage"] == wanted["usage"]
        assert story.usage == baseline.usage


def _shown(message: Json, interrupted: set[str]) -> tuple[str, list[Json]]:
    parts = [
        {**p, "result": None, "is_error": None}
        if p["type"] == "tool_result" and p["tool_call_id"] in interrupted
        else p
        for p in message["content"]
    ]
    return message["role"], parts


def judge_messages(story: Story) -> None:
    """Order, parents, and the same everywhere."""
    ids = [m["id"] for m in story.messages]
    assert len(set(ids)) == len(ids)
    assert story.rows == ids, "Postgres holds something else than the API lists"
    times = [m["created_at"] for m in story.messages]
    assert times == sorted(set(times)), times
    assert [m["parent_id"] for m in story.messages] == [None, *ids[:-1]]
    assert [m["id"] for m in story.run["messages"]] == ids[1:]


def judge_events(story: Story, interrupted: set[str]) -> None:
    """The log of events (numbers without gaps were checked when it was read)."""
    events = story.events
    types = Counter(e["type"] for e in events)
    assert events[0]["type"] == "agent-start"
    assert [e["type"] for e in events[-2:]] == ["finish", "agent-end"]
    for once in ("agent-start", "finish", "agent-end"):
        assert types[once] == 1, types
    told = [e["message"]["id"] for e in events if e["type"] == "message"]
    assert sorted(told) == sorted(m["id"] for m in story.run["messages"])
    ended = Counter(e["tool_call_id"] for e in events if e["type"] == "tool-execution-end")
    assert ended == Counter(story.tools.keys()), ended
    steps = [m for m in story.messages if m["role"] == "assistant"]
    turns = Counter(e["step"] for e in events if e["type"] == "turn-end")
    assert turns == Counter(range(1, len(steps) + 1)), turns
    _judge_decisions(events, interrupted)
    if story.scenario.stream:
        _judge_deltas(events, steps)


def _judge_decisions(events: Sequence[Json], interrupted: set[str]) -> None:
    asked = Counter(
        (e["tool_call_id"], e["attempt"]) for e in events if e["type"] == "tool-call-suspended"
    )
    assert all(n == 1 for n in asked.values()), asked
    decided = Counter(e["tool_call_id"] for e in events if e["type"] == "tool-call-decided")
    assert decided == Counter(call for call, _ in asked), (decided, asked)


def _judge_deltas(events: Sequence[Json], steps: Sequence[Json]) -> None:
    """What is told after a step's last `turn-start` is its message's text."""
    said: dict[int, str] = {}
    for event in events:
        if event["type"] == "turn-start":
            said[event["step"]] = ""
        elif event["type"] == "text-delta":
            said[event["step"]] += event["text"]
    texts = ["".join(p["text"] for p in m["content"] if p["type"] == "text") for m in steps]
    assert list(said.values()) == texts


def judge_ledger(story: Story, interrupted: set[str]) -> None:
    """What tools did to the world."""
    done = Counter(e["call"] for e in story.ledger if e["what"] != "held")
    for call, tool in story.tools.items():
        keys = {e["key"] for e in story.ledger if e["call"] == call}
        if tool in IDEMPOTENT:
            assert len(keys) == 1, f"{call}: {keys}"
            assert done[call] <= 2
        elif call in interrupted:
            assert done[call] <= 1, f"{call} ran {done[call]} times"
        else:
            assert done[call] == 1, f"{call} ran {done[call]} times"


@dataclass(frozen=True)
class Outcome:
    """What came of one kill."""

    scenario: str
    point: Point
    killed: bool
    problem: str
    missed: bool = False
    seconds: float = 0.0
    recovery_s: float = 0.0
    pause_s: float = 0.0


TRIES = 3
"""How often a run is made until it comes by its point: some depend on the time (a flush, a poll)."""


def try_point(
    system: Torture, scenario: Scenario, point: Point, stories: Sequence[Story]
) -> Outcome:
    """A run of a new user that dies at the point. Never raises: the outcome says what went wrong."""
    outcome = Outcome(scenario.name, point, False, "")
    for _ in range(TRIES):
        with system.client() as client:
            system.order_death(client.name, point)
            try:
                story = client.story(scenario)
                judge(story, stories[0])
            except Exception as error:
                about = f"{type(error).__name__}: {error} [user {client.name}]"
                return replace(outcome, killed=system.died(client.name), problem=about[:1500])
        if story.killed:
            facts = {"recovery_s": story.recovery_s, "pause_s": story.longest_pause_s}
            return replace(outcome, killed=True, seconds=story.seconds, **facts)
    if by_the_clock(point, stories):
        return replace(outcome, missed=True)
    return replace(outcome, problem="no run came by this point")


def report(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The figures of a matrix."""
    failed = [o for o in outcomes if o.problem]
    missed = [o for o in outcomes if o.missed]
    functions = Counter(o.point.function for o in outcomes)
    recovery = sorted(o.recovery_s for o in outcomes if o.killed and not o.problem)
    pause = sorted(o.pause_s for o in outcomes if o.killed and not o.problem)
    lines = [
        f"points {len(outcomes)} {dict(functions)}, killed {sum(o.killed for o in outcomes)}, "
        f"failed {len(failed)}, not come by {len(missed)}, {seconds:.0f} s",
        f"taken up again after (s): {_quantiles(recovery)}; longest pause: {_quantiles(pause)}",
        *(f"not come by: {o.scenario} {o.point}" for o in missed),
        *(f"FAILED {o.scenario} {o.point}: {o.problem}" for o in failed),
    ]
    return "\n".join(lines)


def _quantiles(values: Sequence[float]) -> Mapping[str, float]:
    if not values:
        return {}
    at = {"median": 0.5, "p90": 0.9, "max": 1.0}
    return {k: round(values[min(len(values) - 1, int(q * len(values)))], 2) for k, q in at.items()}
