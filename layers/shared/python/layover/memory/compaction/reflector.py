"""The reflector: many observations become fewer (docs/behaviour.md#reflections). Pure.

It answers `{"drop": [id], "merge": [{"ids", "marker", "text", "parent_id"?}]}`. "A child never goes without
its parent" is read so: a detail alone is neither dropped nor merged away while its parent stays, unless
what it is merged into is a detail of that parent again. A parent that is dropped takes its details with
it, but for those that a merge has; a parent that is merged leaves them to what it became."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layover.declare.schemas.render import clean
from layover.memory.answers import json_object, objects, text_of
from layover.memory.compaction.observation_lines import lines, read_marker, tidy
from layover.memory.compaction.observer import rendered
from layover.memory.compaction.reading import prompt
from layover.memory.profile.notes import block
from layover.values.memory.compaction import Compacted, Marker, Observation
from layover.values.prompt import Prompt
from layover.values.tokens import estimate

PROMPT_VERSION = "reflector-1"
"""Changes with `prompts/reflector.md`; each generation says which one made it."""
_SEVERITY = (Marker.CRITICAL, Marker.IMPORTANT, Marker.COMPLETION, Marker.INFO)


def is_due(found: Compacted, most: int | None) -> bool:
    """True if the observations that take effect are more than `most` tokens, and new ones came since they
    were last condensed."""
    shown = found.generation
    if shown is None or shown.kind != "observations" or most is None:
        return False
    return estimate(rendered(found.observations)) > most


def request(model: str, observations: Sequence[Observation]) -> Prompt:
    """The request to condense these observations (at least one, oldest first)."""
    shown = block("observation_log", lines(observations, ids=True))
    return prompt("reflector", model, shown, observations[-1].at)


def reflected(
    answer: str, observations: Sequence[Observation], new_id: Callable[[], str]
) -> tuple[Observation, ...] | None:
    """All observations after the reflection, in order, each detail behind its parent: those that stay
    (with their ids) and the merged ones (with new ids, at the place and time of their last part).

    The same where the answer says that there is nothing to condense. None for an answer that is of no
    use, changes nothing, leaves nothing, or makes more of it."""
    log = _Log(observations)
    found = json_object(clean(answer))
    dropped = _dropped(found)
    merges = _claimed(log, objects(found, "merge"), dropped)
    gone = log.removed(dropped, merges)
    # An answer as good as any: who asked need not ask again.
    enough = found is not None and found.get("drop") == found.get("merge") == []
    if not gone and not enough:
        return None
    left = _applied(log, merges, gone, new_id)
    if not left or estimate(rendered(left)) > estimate(rendered(observations)):
        return None
    return left


@dataclass(frozen=True)
class _Merge:
    """A merge with the ids that it has, in the order of the log."""

    ids: tuple[str, ...]
    text: str
    marker: Marker | None
    parent: str | None


class _Log:
    """The observations with who is whose detail: one level; a detail of something that is not there, or
    of a detail, stands for itself."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self.by_id = {o.id: o for o in observations}
        self.place = {id: place for place, id in enumerate(self.by_id)}
        self.parent: dict[str, str] = {}
        tops: set[str] = set()
        for one in self.by_id.values():
            if one.parent_id in tops and one.parent_id is not None:
                self.parent[one.id] = one.parent_id
            else:
                tops.add(one.id)

    def is_top(self, id: str | None) -> bool:
        """True if it is there and no observation's detail."""
        return id in self.by_id and id not in self.parent

    def removed(self, dropped: set[str], merges: Sequence[_Merge]) -> set[str]:
        """Returns the observations that go: merged, dropped (details only together with their parents), or
        the rest of a dropped parent."""
        merged = {id for merge in merges for id in merge.ids}
        tops = {id for id in dropped if self.is_top(id)} - merged
        details = {
            id
            for id, parent in self.parent.items()
            if parent in tops or (id in dropped and parent in merged)
        }
        return merged | tops | details


def _dropped(answer: Mapping[str, Any] | None) -> set[str]:
    named = answer.get("drop") if answer else None
    return _names(named)


def _names(value: Any) -> set[str]:
    return (
        {v.strip(" []") for v in value if isinstance(v, str)} if isinstance(value, list) else set()
    )


def _claimed(log: _Log, proposed: Sequence[dict[str, Any]], dropped: set[str]) -> list[_Merge]:
    """The merges that say something, each with the ids that no earlier one has and that may go."""
    said = [(item, _names(item.get("ids")), tidy(text_of(item, "text"))) for item in proposed]
    said = [(item, ids, text) for item, ids, text in said if any(c.isalnum() for c in text)]
    going = dropped.union(*(ids for _, ids, _ in said))
    taken: set[str] = set()
    merges: list[_Merge] = []
    for item, ids, text in said:
        target = text_of(item, "parent_id").strip(" []") or None
        own = [
            id
            for id in log.by_id
            if id in ids - taken
            and (log.is_top(id) or log.parent[id] in going or log.parent[id] == target)
        ]
        taken.update(own)
        if own:
            merges.append(_Merge(tuple(own), text, read_marker(text_of(item, "marker")), target))
    return merges


def _applied(
    log: _Log, merges: Sequence[_Merge], gone: set[str], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Returns the kept and merged observations: parents in order, each with its details."""
    made = [_merged(log, merge, new_id()) for merge in merges]
    became = {id: one.id for merge, one in zip(merges, made, strict=True) for id in merge.ids}
    place = {one.id: log.place[m.ids[-1]] for m, one in zip(merges, made, strict=True)}
    parents = _parents_of_merged(log, merges, made, became, gone)
    for id, parent in log.parent.items():
        if id not in gone:
            above = became.get(parent, parent)
            parents[id] = parents.get(above) or above
    stay = [o for o in log.by_id.values() if o.id not in gone]
    all_of_them = [o.model_copy(update={"parent_id": parents.get(o.id)}) for o in (*stay, *made)]
    place.update({o.id: log.place[o.id] for o in stay})
    return _families(all_of_them, place)


def _parents_of_merged(
    log: _Log,
    merges: Sequence[_Merge],
    made: Sequence[Observation],
    became: Mapping[str, str],
    gone: set[str],
) -> dict[str, str]:
    """Merged observation -> what it is a detail of: one that stays, or what that was merged into, as
    long as that is nobody's detail itself."""
    parents = {
        one.id: merge.parent
        for merge, one in zip(merges, made, strict=True)
        if merge.parent is not None and log.is_top(merge.parent) and merge.parent not in gone
    }
    for merge, one in zip(merges, made, strict=True):
        above = became.get(merge.parent or "")
        is_parent = one.id in parents.values()
        if above is not None and above != one.id and above not in parents and not is_parent:
            parents[one.id] = above
    return parents


def _merged(log: _Log, merge: _Merge, id: str) -> Observation:
    parts = [log.by_id[i] for i in merge.ids]
    marker = merge.marker or min((p.marker for p in parts), key=_SEVERITY.index)
    return Observation(id=id, at=max(p.at for p in parts), marker=marker, text=merge.text)


def _families(
    observations: Sequence[Observation], place: Mapping[str, int]
) -> tuple[Observation, ...]:
    def order(one: Observation) -> tuple[int, str, bool, int]:
        head = one.parent_id or one.id
        return place[head], head, one.parent_id is not None, place[one.id]

    return tuple(sorted(observations, key=order))
