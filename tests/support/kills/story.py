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
CALM = ("(running)", "(running, waiting)", "(queued)", "(running, decided, tired)")
"""States of runs that need nothing of the sweeper: whether it looks at one is a matter of time. Settle is
about to end a run whose attempts are used up."""
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


def passes(story: Story, point: Point) -> bool:
    """Return whether the run came by this point."""
    key = (point.function, point.point, point.k)
    return key in _passed(story, "<X" if point.when == "after" else ">")


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
