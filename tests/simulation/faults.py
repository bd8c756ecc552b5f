"""The stories of the simulation as data: what clients do and when, what fails, which features are in use."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Faults:
    """Rates of faults. A share is of all requests, processes or invocations; a time is in seconds."""

    deaths: float = 0.0
    """Share of the processes that die."""
    stalls: float = 0.0
    """Share of the processes that stall."""
    stall_s: tuple[float, float] = (2.0, 30.0)
    zombies: float = 0.0
    """Share of the stalls that outlive the time limit of a function: it goes on next to its repetition."""
    span: int = 30
    """A process dies or stalls within so many requests of its own."""
    fails: float = 0.0
    """Share of the requests that fail and did nothing."""
    lost: float = 0.0
    """Share of the requests that are done and whose answer is lost."""
    doubled: float = 0.0
    """Share of the writes that are done twice, since the first answer was lost."""
    late: float = 0.0
    """Share of the requests that take up to 3 s to arrive."""
    lag_s: float = 0.0
    """Indexes show what was true up to so long ago."""
    skew_s: float = 0.0
    """The clock of a process is wrong by up to so much."""
    refused: float = 0.0
    """Share of the invocations that the service refuses, and of those whose answer it loses."""
    executions_lag_s: float = 0.0
    """The state machine's own list of executions is up to so old."""
    database: float = 0.0
    """Share of the requests to the database that fail."""
    away: float = 0.0
    """Share of the stories in which the database is away for half a minute at most."""
    outages: float = 0.0
    """Share of the stories in which the models' provider is away: for half a minute, up to a day."""
    bus: float = 0.0
    """Share of the events that the bus refuses."""
    busy: float = 0.0
    """Share of the messages that a channel asks to send later."""


@dataclass(frozen=True)
class Features:
    """What a story's deployment has, and what its clients do."""

    sweeper: bool = True
    concurrency: int = 3
    threads: int = 1
    memory: bool = False
    hooks: bool = False
    limits: int | None = None
    daily_tokens: int | None = None
    max_history: int = 20_000
    turn_s: int = 900
    """Time limit of a turn's function, in seconds."""
    removals: bool = False
    """Deployments take tools and agents away, and bring them back."""
    branches: bool = False
    """Messages name any parent."""
    meetings: bool = False
    """Clients wait for a moment of a run, and act at it together."""
    mail_asks: bool = False
    """The tool that needs an account needs an approval, too."""
    followers: bool = False
    """Clients read the streams of their runs."""
    channels: bool = False
    """People are told of calls that wait, in Slack and by mail."""
    words: tuple[str, ...] = ()
    """The tools that messages ask for; empty: `WORDS`."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """How often clients do what; those that are missing are in `WEIGHTS`."""
    most_acts: int = 14
    patience_s: float = 3 * 3600.0
    """Time that runs have to end once nothing fails and everything is decided."""
    may_fail: tuple[str, ...] = ()
    """Types of the errors with which a run may fail."""


WORDS = ("pay", "pay", "soon", "look", "desk", "desk both", "big", "aide", "aide both")
MORE_WORDS = ("pay", "soon", "look", "desk", "big", "aide", "book", "book", "mail", "mail", "pass")
WEIGHTS: Mapping[str, float] = {
    "say": 6,
    "decide": 6,
    "edit": 2,
    "bulk": 2,
    "send": 2,
    "cancel": 1,
    "operate": 1,
    "extend": 1,
    "answer": 1,
    "deploy": 1,
    "vote": 2,
}
MORE_WEIGHTS: Mapping[str, float] = {
    "consent": 2,
    "disconnect": 1,
    "stop": 0.3,
    "delete": 0.3,
    "chat": 2,
    "import_": 0.5,
    "export": 0.5,
}


@dataclass(frozen=True)
class Mode:
    """A kind of story."""

    faults: Faults = Faults()
    features: Features = Features()
    swarms: bool = False
    """Each story has some of the features, drawn by its seed."""


_CALM = Features(sweeper=False, patience_s=1_500)
_FAULTY = Features(may_fail=("AttemptsUsedUp",))
_MANY = Faults(
    fails=0.005,
    lost=0.005,
    doubled=0.005,
    late=0.02,
    lag_s=2.0,
    executions_lag_s=2.0,
    refused=0.02,
    database=0.01,
    deaths=0.07,
    stalls=0.07,
    zombies=0.2,
    skew_s=0.5,
)
_MORE = Features(
    may_fail=("AttemptsUsedUp", "LimitReached"),
    weights=MORE_WEIGHTS,
    words=MORE_WORDS,
    followers=True,
)
_CALM_MORE = replace(
    _MORE, sweeper=False, patience_s=1_500, weights={**MORE_WEIGHTS, "delete": 0, "stop": 0}
)
_TOLD = Features(
    may_fail=("AttemptsUsedUp",),
    channels=True,
    words=("big", "big", "pay", "soon"),
    weights={"edit": 1, "bulk": 1, "send": 0, "deploy": 1, "answer": 0, "vote": 8},
)
_MEETING = {
    "send": 4,
    "cancel": 4,
    "operate": 2,
    "disconnect": 0,
    "consent": 0,
    "import_": 0.2,
    "export": 0.2,
    "chat": 1,
    "delete": 0,
    "stop": 0,
}
_CANCELS = {
    "say": 4,
    "edit": 1,
    "bulk": 3,
    "send": 0,
    "cancel": 4,
    "operate": 0,
    "extend": 0,
    "answer": 0,
    "deploy": 0,
}
_BRANCHING = {**dict.fromkeys(WEIGHTS, 0.5), "say": 8, "decide": 3, "cancel": 4, "send": 2}
MODES: Mapping[str, Mode] = {
    # Without any fault and without any sweeper: whatever is not over at the end is a fault.
    "calm": Mode(features=_CALM),
    "calm-cancels": Mode(features=replace(_CALM, weights=_CANCELS, words=WORDS[:6])),
    "calm-removals": Mode(features=replace(_CALM, removals=True, weights={"edit": 6, "deploy": 6})),
    "calm-branches": Mode(
        features=replace(
            _CALM, branches=True, words=("pay", "pay", "soon", "desk"), weights=_BRANCHING
        )
    ),
    "calm-more": Mode(features=_CALM_MORE, swarms=True),
    "calm-meetings": Mode(
        features=replace(_CALM_MORE, meetings=True, words=WORDS, weights=_MEETING), swarms=True
    ),
    "late": Mode(Faults(late=0.05), _CALM),
    # One kind of fault each.
    "lag": Mode(Faults(lag_s=2.0, executions_lag_s=2.0, late=0.03)),
    "branches": Mode(
        Faults(skew_s=5.0, late=0.05),
        replace(_FAULTY, meetings=True, branches=True, weights=_BRANCHING),
    ),
    "skew": Mode(Faults(skew_s=5.0, lag_s=2.0, late=0.05), _FAULTY),
    "deaths": Mode(Faults(deaths=0.15, lag_s=1.0, executions_lag_s=1.0), _FAULTY),
    "stalls": Mode(Faults(stalls=0.15, zombies=0.2, lag_s=1.0), _FAULTY),
    "zombies": Mode(Faults(stalls=0.3, zombies=0.5, span=25), _FAULTY),
    "requests": Mode(
        Faults(
            fails=0.01,
            lost=0.01,
            doubled=0.01,
            late=0.02,
            lag_s=1.0,
            executions_lag_s=1.0,
            refused=0.02,
            database=0.02,
        ),
        _FAULTY,
    ),
    "bus": Mode(Faults(bus=0.2), _FAULTY),
    "outages": Mode(
        Faults(outages=0.9, deaths=0.05, lag_s=1.0, late=0.02, fails=0.003, lost=0.003),
        replace(
            _FAULTY,
            may_fail=("AttemptsUsedUp", "ProviderAway"),
            weights={"operate": 4, "cancel": 2, "send": 3},
        ),
    ),
    # All of them, with all features.
    "all": Mode(_MANY, replace(_FAULTY, removals=True)),
    "memory": Mode(_MANY, replace(_FAULTY, memory=True)),
    "more": Mode(features=_MORE, swarms=True),
    "more-all": Mode(replace(_MANY, zombies=0.1, skew_s=0.3), _MORE, swarms=True),
    "accounts": Mode(
        Faults(lag_s=2.0, late=0.03, doubled=0.03),
        replace(
            _MORE,
            words=("mail", "mail", "mail", "look", "book"),
            weights={**dict.fromkeys(WEIGHTS, 0.3), "say": 6, "consent": 6, "disconnect": 2},
        ),
        swarms=True,
    ),
    "meetings": Mode(
        Faults(lag_s=1.0, late=0.03, skew_s=2.0, deaths=0.03, away=0.4),
        replace(_MORE, meetings=True, words=WORDS, weights={**_MEETING, "delete": 1, "stop": 0.3}),
        swarms=True,
    ),
    "told": Mode(Faults(busy=0.2), _TOLD),
    "told-all": Mode(
        Faults(
            fails=0.005, lost=0.005, doubled=0.005, late=0.02, deaths=0.1, stalls=0.07, busy=0.1
        ),
        _TOLD,
    ),
}


Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutation:
    """A way in which the product is broken on purpose: the judge has to notice."""

    name: str = ""
    changes: Change | None = None
    """Changes each write to the table before it is made."""
    forgets: frozenset[str] = frozenset()
    """Operations of the state machine and the bus that are never asked for."""
    tears: bool = False
    """A transaction is several writes, one after another."""
    stale_s: float = 0.0
    """Reads of the table show what was true up to so long ago."""
    put_back: Callable[[], AbstractContextManager[None]] = nullcontext
    """Changes the product itself as long as it lasts."""
    modes: tuple[str, ...] = ()
    """The modes whose stories have what it takes; empty: those of `mutations.MODES_OF_ALL`."""


@dataclass(frozen=True)
class Act:
    """One act of a client, at a time in seconds. Its own dice decide about whatever it is about."""

    at: float
    kind: str
    number: int
    """Tells what it says and asks for from what the others do."""
    dice: int
    cue: str = ""
    """The moment that it waits for once its time has come (`clients.CUES`); empty: none."""


@dataclass(frozen=True)
class Story:
    """Everything that decides how a story goes: the same story has the same trace, to the byte."""

    seed: int
    mode: str
    faults: Faults
    features: Features
    acts: tuple[Act, ...]
    rest_s: float
    """Time between the last act and the end of all faults."""
    away: tuple[float, float] = (0.0, 0.0)
    """When the database is away: from and until, in seconds."""
    outage: tuple[float, float] = (0.0, 0.0)
    """When the models' provider is away, likewise."""


def write_story(seed: int, mode: str) -> Story:
    """Return the story of a seed."""
    dice = random.Random(f"story {seed}")
    features = MODES[mode].features
    if MODES[mode].swarms:
        features = _draw_features(dice, features)
    faults = MODES[mode].faults
    write = _write_meetings if features.meetings else _write_bursts
    acts = tuple(write(dice, features))
    rest_s = dice.choice([0, 1, 10])
    away = (0.0, 0.0)
    if faults.away and dice.random() < faults.away:
        away = (begin := dice.uniform(0, 20), begin + dice.uniform(1, 30))
    outage = (0.0, 0.0)
    if faults.outages and dice.random() < faults.outages:
        lasts_s = dice.choice([30, 60, 1_200, 3_000, 7_200, 86_400])
        outage = (begin := dice.uniform(0, 20), begin + lasts_s)
    return Story(seed, mode, faults, features, acts, rest_s, away, outage)


def _write_bursts(dice: random.Random, features: Features) -> Iterator[Act]:
    """Yield acts at any time. In bursts: acts that meet each other are those that matter."""
    weights, at = {**WEIGHTS, **features.weights}, 0.0
    for number in range(1, dice.randint(4, features.most_acts) + 1):
        at += dice.choice([0, 0, 0.02, 0.1, 0.4, 1.5, 5])
        kind = dice.choices(list(weights), list(weights.values()))[0]
        yield Act(at, kind, number, dice.getrandbits(32))


def _write_meetings(dice: random.Random, features: Features) -> Iterator[Act]:
    """Yield acts two or three at a time, each two or three at the same moment of a run."""
    weights, at, number = {**WEIGHTS, **features.weights}, 0.0, 0
    for _ in range(dice.randint(1, 4)):
        kinds = dice.choices(list(weights), list(weights.values()), k=dice.choice([2, 2, 3]))
        if dice.random() < 0.2:
            # The same twice: somebody is impatient, or two people think alike.
            kinds = [kinds[0]] * len(kinds)
        cue = dice.choice(["begun", "waits", "waits", "waits", "works", "queued"])
        for kind, its_cue in [("say", ""), *((kind, cue) for kind in kinds)]:
            number += 1
            yield Act(at, kind, number, dice.getrandbits(32), its_cue)
        at += dice.choice([0, 0.3, 3, 15])


def _draw_features(dice: random.Random, features: Features) -> Features:
    drawn: dict[str, Any] = {
        "hooks": True,
        "limits": 3,
        "memory": True,
        "threads": 2,
        "removals": True,
        "branches": True,
        "mail_asks": True,
    }
    changes: dict[str, Any] = {name: value for name, value in drawn.items() if dice.random() < 0.35}
    return replace(
        features,
        **changes,
        concurrency=dice.choice([1, 2, 3]),
        max_history=dice.choice([20_000, 1_000]),
        daily_tokens=dice.choice([None, 10**9]),
        turn_s=dice.choice([900, 900, 40]),
    )
