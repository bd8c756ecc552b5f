"""Known ways to break the product, and how many stories pass before one of them notices.

A mutation is made where all writes go through: a condition that a writer forgets, a mark that it does not
set, a transaction that is torn, a request that is never made. So it stays what it is when the code moves. Run
it as `make simulate-mutations`."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import count, cycle
from typing import Any

from layover.keys import HEAD, META
from layover.ports.table import AllOf, AnyOf, Condition, Delete, Put, Update
from simulation.faults import Change, Mutation, write_story
from simulation.play import play
from simulation.put_back import PUT_BACK

MODES_OF_ALL = ("calm-cancels", "more-all", "calm", "requests", "zombies", "all")
SLOW = ("zombies", "stalls", "calm-cancels", "more-all")
BUS = ("bus", "told-all", "requests")
CHATS = ("more-all", "more")
MOST_STORIES = 600
Where = Callable[[Any], bool]


def without(names: tuple[str, ...], where: Where) -> Change:
    """Return the change of a writer that forgets to check these attributes."""

    def change(action: Any) -> Any:
        if getattr(action, "when", None) is None or not where(action):
            return action
        rest = _weakened(action.when, names)
        # A check of a transaction always has a condition: one that always holds.
        if rest is None and not isinstance(action, Put | Update | Delete):
            rest = AllOf(())
        return replace(action, when=rest)

    return change


def _weakened(condition: Condition, names: tuple[str, ...]) -> Condition | None:
    """Return the condition without the parts that are about these attributes; None: nothing is left."""
    if isinstance(condition, AllOf | AnyOf):
        parts = [_weakened(part, names) for part in condition.parts]
        left = tuple(part for part in parts if part is not None)
        if isinstance(condition, AnyOf) and len(left) < len(parts):
            return None
        return type(condition)(left) if left else None
    return None if condition.name in names else condition


def unset(name: str, where: Where) -> Change:
    """Return the change of a writer that forgets to set this attribute."""

    def change(action: Any) -> Any:
        if not isinstance(action, Update) or not where(action):
            return action
        maps: dict[str, Any] = {
            field: {key: value for key, value in getattr(action, field).items() if key != name}
            for field in ("set", "add", "include")
        }
        return replace(action, **maps)

    return change


def of_run(action: Any) -> bool:
    return bool(action.sk == META)


def of_thread(action: Any) -> bool:
    return bool(action.sk == HEAD)


def of_call(action: Any) -> bool:
    return bool(action.sk.startswith("STEP#") and "#CALL#" in action.sk)


def beginning(*prefixes: str) -> Where:
    """Return a test of writes: whether the key begins so, in its partition or without it."""
    return lambda action: action.sk.startswith(prefixes) or any(p in action.pk for p in prefixes)


def any_write(_: Any) -> bool:
    return True


_MODES: Mapping[str, tuple[str, ...]] = {
    "a cancelled run denies a payment that was made": ("calm-cancels",),
    "a thread loses its history behind a cancelled run": ("calm-meetings", "meetings"),
    "an approved result is beside the branch": ("calm", "calm-more"),
    "a run at work is set aside": ("calm-meetings", "meetings"),
    "an edit runs with arguments that nobody was shown": ("calm-removals",),
    "a vote covers the outcome": ("told", "told-all"),
    "a call waits for an account that is connected": ("accounts",),
    "the bus is never told of a decision": ("bus",),
    "a plain write takes its own repetition for another's": ("accounts", "requests"),
    "a message withdraws the call that answers it": ("calm", "late", "calm-more"),
    "a message to a cancelled run is lost": ("calm-cancels", "calm-more"),
    "the sweeper puts off a call that was just decided": ("skew", "deaths"),
    "two cancels fence each other off": ("calm-meetings", "meetings"),
    "a decision beside a deletion is an error of the server": ("more",),
    "a reader sees what is left of a log behind a gap": ("meetings", "more-all"),
    "room in a day stays held after the end": ("meetings",),
    "room in a day stays held by a run that is being ended": ("meetings",),
    "room in a day is held by a reservation that comes late": ("meetings",),
    "room in a day is held by a reservation that came between": ("meetings",),
    "a run that is redriven at its beginning begins twice": ("calm", "all"),
    "a message that is cancelled in the queue stops its thread": ("calm-branches",),
    "a branch goes back in time": ("branches",),
    "a run that was cancelled without the database stops its thread": ("requests", "more-all"),
}
"""The modes whose stories have what it takes, for each fault of `put_back.py`. Two need what no story has:
sockets that do not close, and a thread that is old."""


MUTATIONS: tuple[Mutation, ...] = (
    # Fences: what a writer checks of what it has read.
    Mutation("a run's epoch is not checked", without(("epoch",), of_run), modes=SLOW),
    Mutation("a run's status is not checked", without(("status",), of_run)),
    Mutation("who drives a run is not checked", without(("execution", "n"), of_run), modes=SLOW),
    Mutation("what a run waits for is not checked", without(("waiting", "decided"), of_run)),
    Mutation("a cancel is not seen by who sets aside", without(("cancel",), of_run)),
    Mutation("a run's phase is not checked", without(("phase", "branches", "rests"), of_run)),
    Mutation("a message that came last is not seen", without(("said",), of_run)),
    Mutation("what a run owes is not checked", without(("owed",), of_run), modes=BUS),
    Mutation(
        "nothing of a run is checked by its writers",
        without(("epoch", "phase", "branches", "status"), of_run),
        modes=SLOW,
    ),
    Mutation(
        "that a run only waits is not checked",
        without(("phase", "branches", "waiting", "decided", "cancel", "epoch"), of_run),
        modes=("calm", "calm-more", "all"),
    ),
    Mutation("a call's rev is not checked", without(("rev",), of_call)),
    Mutation("nothing of a call is checked", lambda a: replace(a, when=None) if of_call(a) else a),
    Mutation("who has a thread is not checked", without(("active_run",), of_thread)),
    Mutation("a thread's queue is not checked", without(("queue", "ready"), of_thread)),
    Mutation(
        "nothing of a thread is checked",
        lambda action: replace(action, when=AllOf(())) if of_thread(action) else action,
    ),
    Mutation("a batch of events is written over", without(("pk",), beginning("EVENT#"))),
    Mutation(
        "a request key is taken twice", without(("pk", "expires"), beginning("#IDEMPOTENCY#"))
    ),
    Mutation(
        "a chat's id is taken twice", without(("pk", "run_id"), beginning("MESSAGE#")), modes=CHATS
    ),
    # Marks: what a writer notes for others.
    Mutation("that a run is set aside is not noted", unset("aside", of_run)),
    Mutation("that a run is ready is not noted", unset("ready", of_run)),
    Mutation("that a thread has a run ready is not noted", unset("ready", of_thread)),
    Mutation(
        "that a call is decided is not noted",
        unset("decided", of_run),
        modes=("deaths", "calm", "calm-more"),
    ),
    Mutation("that a call waits is not noted", unset("waiting", of_run)),
    Mutation("what a run owes is not noted", unset("owed", of_run), modes=BUS),
    Mutation(
        "that a run has to end is not noted",
        unset("cancel", of_run),
        modes=("deaths", "calm-cancels", "all"),
    ),
    Mutation("that a run hears others is not noted", unset("hears", of_run)),
    # Requests and stores.
    Mutation("a waiting call is never woken", forgets=frozenset({"SendTaskSuccess"})),
    Mutation("an execution is never started", forgets=frozenset({"StartExecution"})),
    Mutation("a decision is never published", forgets=frozenset({"ApprovalDecided"})),
    Mutation("a transaction is torn", tears=True, modes=("deaths", "all", "more-all")),
    Mutation("a read is a second old", stale_s=1.0),
    # Faults that were found and mended.
    *(Mutation(name, put_back=PUT_BACK[name], modes=modes) for name, modes in _MODES.items()),
)


@dataclass(frozen=True)
class Found:
    """What has noticed a mutation. `promise` None: nothing did."""

    mutation: Mutation
    stories: int
    seconds: float
    promise: str | None = None
    is_there: bool = True
    """False if nothing that the product does is changed by it."""


def find(mutation: Mutation, most: int = MOST_STORIES) -> Found:
    """Play stories of a broken product until one breaks a promise that the whole product keeps in it."""
    begun, is_there = time.monotonic(), False
    for number, (seed, mode) in enumerate(_stories(mutation), 1):
        story = write_story(seed, mode)
        with mutation.put_back():
            played = play(story, mutation=mutation)
        is_there = is_there or played.counts["mutated"] > 0 or _is_everywhere(mutation)
        seconds = time.monotonic() - begun
        if played.promises and (new := set(played.promises) - set(play(story).promises)):
            promise = next(each for each in played.promises if each in new)
            return Found(mutation, number, seconds, promise)
        if number == most:
            return Found(mutation, number, seconds, is_there=is_there)
    raise AssertionError("seeds do not end")


def _is_everywhere(mutation: Mutation) -> bool:
    return mutation.stale_s > 0 or mutation.put_back is not nullcontext


def _stories(mutation: Mutation) -> Iterator[tuple[int, str]]:
    return zip(count(), cycle(mutation.modes or MODES_OF_ALL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=MOST_STORIES, help="stories for each")
    parser.add_argument("--only", default="", help="mutations with this in their name")
    given = parser.parse_args()
    print("| mutation | stories | seconds | noticed by |\n| --- | --- | --- | --- |")
    for mutation in MUTATIONS:
        if given.only not in mutation.name:
            continue
        found = find(mutation, most=given.most)
        said = found.promise or ("nothing" if found.is_there else "nothing: it changes nothing")
        print(f"| {mutation.name} | {found.stories} | {found.seconds:.1f} | {said} |", flush=True)


if __name__ == "__main__":
    main()
