"""The reflector: many observations become fewer (docs/behaviour.md#reflections). Pure.

It reads the observations with numbers, as ids are long and models miscopy them, and answers
`{"drop": [number], "merge": [{"ids": [number], "marker", "text", "parent_id"?}]}`. "A child never goes
without its parent" means: a detail is neither dropped nor merged away by itself while its parent stays,
unless it is merged into another detail of that parent. A dropped parent takes its details with it, except
those that a merge has; a merged parent leaves them to the result of the merge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layover.plugins.memory.condenses.observation_lines import (
    SEVERITY,
    read_marker,
    tidy,
    without_repetition,
)
from layover.plugins.memory.learns.requests import text_prompt
from layover.plugins.memory.learns.text.answers import json_object, objects, text_of
from layover.plugins.memory.reads.blocks import observation_lines, render_observations
from layover.plugins.memory.reads.profile.notes import block
from layover.values.memory.compaction import Marker, Observation
from layover.values.prompt import Prompt
from layover.values.text import sanitise
from layover.values.tokens import estimate

PROMPT_VERSION = "reflector-2"
"""Changes with `prompts/reflector.md`; each generation names the version that made it."""
TARGET = 0.7
"""The share of the limit that observations should have after a reflection: new ones need room, too."""


def target_of(max_tokens: int) -> int:
    """Return the tokens that observations should have after a reflection."""
    return int(max_tokens * TARGET)


def size(observations: Sequence[Observation]) -> int:
    """Return the tokens of observations in a prompt, by estimate."""
    return estimate(render_observations(observations))


def request(model: str, observations: Sequence[Observation], target: int) -> Prompt:
    """Return the request to condense these observations (at least one, oldest first) to `target` tokens."""
    log = block("observation_log", observation_lines(observations, numbered=True))
    aim = f"It has {size(observations)} tokens. At most {target} should be left."
    return text_prompt("reflector", model, f"{log}\n{aim}", observations[-1].at)


def parse(
    answer: str, observations: Sequence[Observation], new_id: Callable[[], str]
) -> tuple[Observation, ...] | None:
    """Return all observations after the reflection, in order, each detail behind its parent: those that stay
    (with their ids) and the merged ones (with new ids, at the place and time of their last part). The same
    ones if the answer says that there is nothing to condense. None for an answer that is useless, changes
    nothing, leaves nothing, or makes the text longer."""
    log = _Log(observations)
    reply = json_object(sanitise(answer), "drop", "merge")
    to_drop = log.ids_of(reply.get("drop")) if reply else set()
    merges = _assign_merges(log, objects(reply, "merge"), to_drop)
    removed_ids = log.ids_to_remove(to_drop, merges)
    # The answer is valid, so the caller need not ask again.
    enough = reply is not None and reply.get("drop") == reply.get("merge") == []
    if not removed_ids and not enough:
        return None
    result = without_repetition(_apply(log, merges, removed_ids, new_id))
    if not result or size(result) > size(observations):
        return None
    return result


@dataclass(frozen=True)
class _Merge:
    """A merge with the ids that it has, in the order of the log."""

    ids: tuple[str, ...]
    text: str
    marker: Marker | None
    parent: str | None


class _Log:
    """The observations with their parents: one level. A detail of a missing observation, or of a detail,
    stands for itself."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self.by_id = {o.id: o for o in observations}
        self.place = {id: place for place, id in enumerate(self.by_id)}
        self._by_number = {str(number): o.id for number, o in enumerate(observations, 1)}
        self.parent: dict[str, str] = {}
        tops: set[str] = set()
        for one in self.by_id.values():
            if one.parent_id in tops and one.parent_id is not None:
                self.parent[one.id] = one.parent_id
            else:
                tops.add(one.id)

    def id_of(self, number: Any) -> str | None:
        """Return the id of the observation with this number, which a model may write as a text; None if there
        is none."""
        if isinstance(number, bool) or not isinstance(number, int | str):
            return None
        return self._by_number.get(str(number).strip(" []#"))

    def ids_of(self, numbers: Any) -> set[str]:
        """Return the ids of the observations with these numbers."""
        items = numbers if isinstance(numbers, list) else []
        return {id for item in items if (id := self.id_of(item)) is not None}

    def is_top(self, id: str | None) -> bool:
        """Return whether the observation exists and is not a detail."""
        return id in self.by_id and id not in self.parent

    def ids_to_remove(self, to_drop: set[str], merges: Sequence[_Merge]) -> set[str]:
        """Return the observations to remove: merged ones, dropped ones (details only together with their
        parents), and the rest of a dropped parent."""
        merge_ids = {id for merge in merges for id in merge.ids}
        tops = {id for id in to_drop if self.is_top(id)} - merge_ids
        details = {
            id
            for id, parent in self.parent.items()
            if parent in tops or (id in to_drop and parent in merge_ids)
        }
        return merge_ids | tops | details


def _assign_merges(
    log: _Log, proposals: Sequence[dict[str, Any]], to_drop: set[str]
) -> list[_Merge]:
    """Return the merges that have a text, each with the ids that no earlier one has and that may be
    removed."""
    usable = [
        (item, log.ids_of(item.get("ids")), tidy(text_of(item, "text"))) for item in proposals
    ]
    usable = [(item, ids, text) for item, ids, text in usable if any(c.isalnum() for c in text)]
    leaving_ids = to_drop.union(*(ids for _, ids, _ in usable))
    used_ids: set[str] = set()
    merges: list[_Merge] = []
    for item, ids, text in usable:
        target = log.id_of(item.get("parent_id"))
        own = [
            id
            for id in log.by_id
            if id in ids - used_ids
            and (log.is_top(id) or log.parent[id] in leaving_ids or log.parent[id] == target)
        ]
        used_ids.update(own)
        if own:
            merges.append(_Merge(tuple(own), text, read_marker(text_of(item, "marker")), target))
    return merges


def _apply(
    log: _Log, merges: Sequence[_Merge], removed_ids: set[str], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Return the kept and merged observations: parents in order, each with its details."""
    merge_results = [_combine(log, merge, new_id()) for merge in merges]
    became = {
        id: one.id for merge, one in zip(merges, merge_results, strict=True) for id in merge.ids
    }
    place = {one.id: log.place[m.ids[-1]] for m, one in zip(merges, merge_results, strict=True)}
    parents = _parents_of_merges(log, merges, merge_results, became, removed_ids)
    for id, parent in log.parent.items():
        if id not in removed_ids:
            above = became.get(parent, parent)
            parents[id] = parents.get(above) or above
    stay = [o for o in log.by_id.values() if o.id not in removed_ids]
    all_of_them = [
        o.model_copy(update={"parent_id": parents.get(o.id)}) for o in (*stay, *merge_results)
    ]
    place.update({o.id: log.place[o.id] for o in stay})
    return _families(all_of_them, place)


def _parents_of_merges(
    log: _Log,
    merges: Sequence[_Merge],
    merge_results: Sequence[Observation],
    became: Mapping[str, str],
    removed_ids: set[str],
) -> dict[str, str]:
    """Return the parent of each merged observation that is a detail: one that stays, or the observation that
    it was merged into, unless that is a detail itself."""
    parents = {
        one.id: merge.parent
        for merge, one in zip(merges, merge_results, strict=True)
        if merge.parent is not None and log.is_top(merge.parent) and merge.parent not in removed_ids
    }
    for merge, one in zip(merges, merge_results, strict=True):
        above = became.get(merge.parent or "")
        is_parent = one.id in parents.values()
        if above is not None and above != one.id and above not in parents and not is_parent:
            parents[one.id] = above
    return parents


def _combine(log: _Log, merge: _Merge, id: str) -> Observation:
    parts = [log.by_id[i] for i in merge.ids]
    marker = merge.marker or min((p.marker for p in parts), key=SEVERITY.index)
    return Observation(id=id, at=max(p.at for p in parts), marker=marker, text=merge.text)


def _families(
    observations: Sequence[Observation], place: Mapping[str, int]
) -> tuple[Observation, ...]:
    def order(one: Observation) -> tuple[int, str, bool, int]:
        head = one.parent_id or one.id
        return place[head], head, one.parent_id is not None, place[one.id]

    return tuple(sorted(observations, key=order))
