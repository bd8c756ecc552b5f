"""Runs as they are told to go, points at which a process dies, and all that can be seen of a run afterwards.

A *point* is the k-th time that one function begins one thing for one owner, or is through with it
(`points`): what another process's write refuses begins more often than it ends. Points are read from what
runs without a kill did; nothing is listed by hand."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from support.system.system import Json, Planned

if TYPE_CHECKING:
    from support.kills.torture import Client

BY_THE_CLOCK = ("sweep ", "migrate ")
"""Functions whose work is part of a run's story only if its scenario says so."""
CLOCKED = frozenset({"DynamoTable.write EVENT", "DynamoTable.get META"})
"""Work that is repeated at intervals."""
CALM = ("(running)", "(running, waiting)", "(queued)", "(running, decided, tired)")
"""States of runs that need nothing of the sweeper: whether it looks at one is a matter of time. Settle is
about to end a run whose attempts are used up."""
BETWEEN_ATTEMPTS = "StepFunctions.alive (running, decided)"
"""The sweeper's look at a run whose decided call waits for the turn. Where attempts of the turn die, the next
one comes by itself after a second or two: whether the sweeper looks meanwhile is a matter of time."""
FOLLOWING = re.compile(r".*(\bSUB\b|ApiGatewaySockets).*")
"""Work for followers by socket: how much is sent at once, and which process sends it, is a matter of
chance."""
LOOKERS = ("sweep", "streams")
"""Functions that look again and again: how often is a matter of time."""
LOOKS = 2
"""Of what is done again and again (by the sweeper while a run stays in one state), so much is killed."""

Act = Callable[["Client", str, str], str | None]
"""An act on a run of a thread from outside. Returns the id of the run that follows it, if one does."""
Open = Callable[["Client", "Scenario"], tuple[str, str]]
"""The beginning of a thread with its first run. Returns their ids."""
Check = Callable[["Client", "Story"], None]
"""Fails unless all holds that a scenario says besides, once its run is over and judged."""


@dataclass(frozen=True, order=True)
class Point:
    """A point at which a process dies."""

    function: str
    point: str
    k: int
    when: str

    def __str__(self) -> str:
        return f"{self.function}: {self.when} {self.point} #{self.k}"


@dataclass(frozen=True)
class Death:
    """Processes that die at the point (a pattern, `*` stands for anything), `times` in a row."""

    point: Point
    times: int = 1


@dataclass(frozen=True)
class Scenario:
    """One way through the engine: the question, the model's answers, and what happens to the run.

    `open`: the request that begins it, if it is not an ordinary one. `briefs`: what sub-agents are answered,
    by the plan that their briefings name. `denied`: ids of calls that never run. `deaths` happen in every run
    of it; `watched` is killed, too: beginnings of `FUNCTION POINT`, empty for all but `BY_THE_CLOCK`. `ends`:
    success, failed, cancelled, erased, forgotten. `check`: what has to hold besides."""

    name: str
    steps: tuple[Planned, ...]
    text: str
    stream: bool = False
    agent: str = "torture"
    act: Act | None = None
    open: Open | None = None
    briefs: Mapping[str, tuple[Planned, ...]] = field(default_factory=dict)
    denied: frozenset[str] = frozenset()
    deaths: tuple[Death, ...] = ()
    watched: tuple[str, ...] = ()
    ends: str = "success"
    check: Check | None = None

    def watches(self, function: str, point: str) -> bool:
        """Return whether the matrix kills at this point."""
        about = f"{function} {point}"
        return (
            about.startswith(self.watched) if self.watched else not about.startswith(BY_THE_CLOCK)
        )


@dataclass(frozen=True)
class Line:
    """One line of a trace: `>` begins, `<` is through, `x` died before it, `X` died after it."""

    mark: str
    function: str
    point: str
    k: int
    pid: int
    at: float

    @property
    def died(self) -> Point | None:
        """The point at which the process died here."""
        when = {"x": "before", "X": "after"}.get(self.mark)
        return Point(self.function, self.point, self.k, when) if when else None


@dataclass
class Story:
    """All that can be seen of one run when it is over; `then`: of the run that followed it."""

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
    at_work: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0
    then: "Story | None" = None

    @property
    def own(self) -> list[Json]:
        """The run's messages, its input first."""
        return [m for m in self.messages if m["run_id"] == self.run["id"]]

    @property
    def children(self) -> list[Json]:
        """The runs of sub-agents, at every depth."""
        return _below(self.run)

    @property
    def told(self) -> list[Json]:
        """The messages of the run and of its sub-agents."""
        return [*self.own, *(m for child in self.children for m in child["messages"])]

    @property
    def results(self) -> dict[str, tuple[Any, bool]]:
        """The outcome of each call, at every depth."""
        parts = [p for m in self.told for p in m["content"] if p["type"] == "tool_result"]
        return {p["tool_call_id"]: (p["result"], p["is_error"]) for p in parts}

    @property
    def tools(self) -> dict[str, str]:
        """The tool of each call, at every depth."""
        parts = [p for m in self.told for p in m["content"] if p["type"] == "tool_call"]
        return {p["tool_call_id"]: p["tool_name"] for p in parts}

    @property
    def cut_off(self) -> set[str]:
        """Calls that the end of the run found unfinished."""
        found = self.results.items()
        return {c for c, (r, is_error) in found if is_error and str(r).startswith("Cancelled: ")}

    def killed_at(self, point: Point) -> bool:
        """Return whether a process died at this point."""
        return any(line.died == point for line in self.trace)

    def recovery_s(self, point: Point) -> float:
        """From the kill until the same work is taken up by another process."""
        died = next((i for i, line in enumerate(self.trace) if line.died == point), None)
        if died is None:
            return 0.0
        death = self.trace[died]
        later = [x for x in self.trace[died:] if x.mark == ">" and x.pid != death.pid]
        same = [x.at for x in later if x.function == death.function]
        return min(same, default=death.at) - death.at

    @property
    def longest_pause_s(self) -> float:
        """The longest time in which nothing at all was done for the run."""
        times = [x.at for x in self.trace]
        return max((b - a for a, b in pairwise(times)), default=0.0)


def _below(run: Json) -> list[Json]:
    children = run.get("children") or []
    return [each for child in children for each in (child, *_below(child))]


def points(*stories: Story) -> list[Point]:
    """Every point that any of these runs passed, before and after, in the order of their passing. What
    fails (the database is away) has no after."""
    passed = dict.fromkeys(key for story in stories for key in _passed(story))
    done = {key for story in stories for key in _passed(story, "<X")}
    whens = {key: ("before", "after") if key in done else ("before",) for key in passed}
    return [Point(*key, when) for key in passed for when in whens[key]]


def _passed(story: Story, marks: str = ">") -> list[tuple[str, str, int]]:
    watches = story.scenario.watches
    seen = [x for x in story.trace if x.mark in marks and watches(x.function, x.point)]
    return [(x.function, x.point, x.k) for x in seen if _counts(x)]


def _counts(line: Line) -> bool:
    """Of what goes by the clock (the sweeper's looks, what is sent to followers) the first. Runs that ended
    well are retired by `extract`; where the sweeper comes first it does what it does for others."""
    if line.function in LOOKERS:
        return line.k <= LOOKS and not line.point.endswith("(success)")
    return line.k <= LOOKS or not FOLLOWING.fullmatch(line.point)


SWITCH = "DynamoTable.get STOP"
"""A look at the operator's switch."""
DELETING = ("DELETE /threads ", "DELETE /me ")
"""Requests with which `api` deletes a thread, or all of a user."""
NEXT_PAGE = ("DynamoTable.query EVENT", "DynamoTable.query STEP")
"""Queries by which `extract` retires a run of more records than a page has."""
WAITING_CALL = re.compile(r"DynamoTable\.get STEP#\d+#CALL#\S+")
"""The sweeper's look at a call that waits."""
RETIRING = re.compile(r".+ \(cancelled\)")
"""A request of the sweeper's look at a run that is over: what it owes, and who retires it."""
TOKEN = re.compile(r"DynamoTable\.transact META STEP#\d+#CALL#[^\s=]+")
"""The write of a call's task token, which fails if the decision was there first."""
AGAIN = re.compile(rf"{TOKEN.pattern}|DynamoTable\.get HEAD")
"""The write of a later token, and a later branch's look at its thread while other calls wait."""
SAVED_TOKEN = re.compile(r"DynamoTable\.get (STEP#\d+#CALL#[^\s=]+|META)")
"""The look at the call that follows such a write, and at the run, to publish the request."""


def by_the_clock(point: Point, stories: Sequence[Story]) -> bool:
    """Return whether a run may do without this point: batches of events (and what becomes of each later),
    polls."""
    if point.k > 1 and (point.point in CLOCKED or point.function in LOOKERS):
        return True
    if is_calm(point) or point.point.startswith("StepFunctions.wake"):
        return True  # whether a decision or its token comes first, who wakes the other is chance
    if FOLLOWING.fullmatch(point.point):
        return True
    if point.point.endswith(SWITCH):
        return True  # an environment remembers it for some seconds, for all runs
    if point.point == BETWEEN_ATTEMPTS and any(_loses_turns(story) for story in stories):
        return True
    erases = any(story.scenario.ends in ("erased", "forgotten") for story in stories)
    if point.function == "sweep" and erases and RETIRING.fullmatch(point.point):
        return True  # a run whose records are erased first needs no look
    if point.function == "sweep" and WAITING_CALL.fullmatch(point.point):
        return True  # how long it has waited is counted by whichever sweep finds the run waiting
    if point.function == "resume" and _is_of_token(point):
        return True  # whether a decision or its token comes first is chance
    if point.function == "resume" and point.k > 1 and AGAIN.fullmatch(point.point):
        return True  # a decision that is quicker than the branch leaves no token to store, or no other call
    if point.function == "extract" and point.point.startswith(NEXT_PAGE):
        return True  # where a page of the run's records ends depends on its batches of events
    if point.function == "api" and point.point.startswith(DELETING):
        return True  # a request erases for two seconds, and the sweeper what is left
    key = (point.function, point.point, point.k)
    marks = "<X" if point.when == "after" else ">"
    return not all(key in _passed(story, marks) for story in stories)


def _loses_turns(story: Story) -> bool:
    return any(line.died and line.function == "turn" for line in story.trace)


def _is_of_token(point: Point) -> bool:
    if SAVED_TOKEN.fullmatch(point.point):
        return True
    return point.when == "after" and TOKEN.fullmatch(point.point) is not None


def is_calm(point: Point) -> bool:
    """Return whether this point is the sweeper's look at a run that needed nothing of it."""
    return point.function == "sweep" and point.point.endswith(CALM)


def spread(all_points: Sequence[Point], count: int) -> list[Point]:
    """So many of them, from the first to the last."""
    step = max(1.0, len(all_points) / count)
    return [all_points[int(i * step)] for i in range(min(count, len(all_points)))]


def in_doubt(story: Story) -> dict[str, bool]:
    """Calls that a killed process may have had open when it died. True: it certainly had."""
    doubt: dict[str, bool] = {}
    for index, line in enumerate(story.trace):
        if line.died:
            for call, sure in _open_at(story.trace[: index + 1], line.pid).items():
                doubt[call] = doubt.get(call, False) or sure
    return doubt


def _open_at(trace: Sequence[Line], pid: int) -> dict[str, bool]:
    """Return what a process had open when it died in the last line."""
    open_: dict[str, bool] = {}
    begun = Counter[str]()
    for line in trace:
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
