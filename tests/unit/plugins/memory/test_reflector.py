"""Changes that a reflection may make to observations (docs/behaviour.md#reflections)."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.plugins.memory.condenses.observation_lines import MAX_TEXT
from layover.plugins.memory.condenses.reflector import parse, request
from layover.values.memory.compaction import Marker, Observation
from support.worlds.observations import EVIL, ids, observation

LONG = "a text that is long enough to be condensed, number "
LOG = (
    observation("p", LONG + "1", minute=1, marker=Marker.IMPORTANT),
    observation("p1", LONG + "2", "p", 2, marker=Marker.COMPLETION),
    observation("p2", LONG + "3", "p", 3),
    observation("q", LONG + "4", minute=4),
    observation("q1", LONG + "5", "q", 5),
    observation("r", LONG + "6", minute=6, marker=Marker.CRITICAL),
)
ALL = [o.id for o in LOG]


def number(id: Any, log: Sequence[Observation] = LOG) -> Any:
    """The number that the observation has in the request; of nobody, one that nobody has."""
    if not isinstance(id, str):
        return id
    return next((n for n, o in enumerate(log, 1) if o.id == id), 99)


def numbers(answer: dict[str, Any], log: Sequence[Observation] = LOG) -> str:
    """An answer in numbers."""
    merges = [
        {
            **item,
            **({"ids": [number(id, log) for id in item["ids"]]} if "ids" in item else {}),
            **({"parent_id": number(item["parent_id"], log)} if "parent_id" in item else {}),
        }
        for item in answer["merge"]
    ]
    return json.dumps({"drop": [number(id, log) for id in answer["drop"]], "merge": merges})


def reflect(drop: Any = (), *merge: Any) -> tuple[Observation, ...] | None:
    return parse(numbers({"drop": list(drop), "merge": merge}), LOG, ids())


def merge(*of: str, text: str = "merged", **fields: Any) -> dict[str, Any]:
    return {"ids": list(of), "marker": "INFO", "text": text, **fields}


def left(drop: Any = (), *merges: Any) -> list[str] | None:
    """Ids after a reflection, a detail below its parent as `parent>id`."""
    found = reflect(drop, *merges)
    if found is None:
        return None
    return [f"{o.parent_id}>{o.id}" if o.parent_id else o.id for o in found]


def made(item: dict[str, Any], drop: tuple[str, ...] = ()) -> Observation:
    """Merge, and return the new observation."""
    found = reflect(drop, item)
    assert found is not None
    return next(o for o in found if o.id == "n1")


UNCHANGED = ["p", "p>p1", "p>p2", "q", "q>q1", "r"]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I would drop p.",
        "[]",
        '{"drop": ',
        "{" * 5_000,
        "{}",
        '{"drop": "1", "merge": {"ids": [1]}}',
        '{"drop": []}',
        '{"drop": null, "merge": null}',
        '{"drop": ["p", true, null, {"id": 1}], "merge": [5, "p", null]}',
        '{"drop": [99, 0, -1, 1.5], "merge": [{"ids": [99], "marker": "INFO", "text": "x"}]}',
        '<think>{"drop": [1]}</think>',
    ],
)
def test_an_answer_of_no_use_changes_nothing(answer: str) -> None:
    assert parse(answer, LOG, ids()) is None


def test_an_answer_that_there_is_nothing_to_condense_leaves_everything() -> None:
    assert reflect() == LOG


@pytest.mark.parametrize(
    "item",
    [
        merge("p", text=" \n"),
        merge("p", text="..."),
        {"ids": ["p"], "marker": "INFO"},
        {"ids": ["p"], "text": 5},
        {"ids": [], "text": "word"},
        {"ids": [], "text": "x"},
        {"text": "x"},
    ],
)
def test_a_merge_that_says_nothing_claims_nothing(item: dict[str, Any]) -> None:
    assert left((), item) is None
    assert left(("p",), item) == ["q", "q>q1", "r"]


def test_a_reflection_that_leaves_nothing_is_refused() -> None:
    assert left(tuple(ALL)) is None
    assert left(("p", "q", "r")) is None


def test_a_reflection_that_makes_more_of_it_is_refused() -> None:
    assert left((), merge("r", text="word " * 100)) is None


def test_unknown_ids_are_ignored() -> None:
    assert left(("nobody", "r")) == UNCHANGED[:-1]
    assert left((), merge("nobody", "r", "r")) == [*UNCHANGED[:-1], "n1"]


def test_a_detail_alone_is_not_dropped() -> None:
    assert left(("p1",)) is None
    assert left(("p1", "p2", "q1")) is None
    assert left(("p1", "r")) == UNCHANGED[:-1]


def test_a_detail_alone_is_not_merged_away() -> None:
    assert left((), merge("p1")) is None
    assert left((), merge("p1", "p2")) is None
    assert left((), merge("p1", parent_id="r")) is None
    assert left((), merge("p1", "r")) == ["p", "p>p1", "p>p2", "q", "q>q1", "n1"]


def test_a_dropped_parent_takes_its_details_with_it() -> None:
    assert left(("p",)) == ["q", "q>q1", "r"]
    assert left(("p", "p1")) == ["q", "q>q1", "r"]


def test_a_detail_that_was_merged_outlives_its_dropped_parent() -> None:
    assert left(("p",), merge("p1")) == ["n1", "q", "q>q1", "r"]
    assert left(("p",), merge("p1", "r")) == ["q", "q>q1", "n1"]


def test_a_merged_parent_leaves_its_details_to_what_it_became() -> None:
    assert left((), merge("p", "q")) == ["n1", "n1>p1", "n1>p2", "n1>q1", "r"]
    assert left(("p1",), merge("p", "q")) == ["n1", "n1>p2", "n1>q1", "r"]
    assert left((), merge("p", "p1", "p2")) == ["n1", "q", "q>q1", "r"]


def test_details_are_condensed_below_the_parent_that_they_have() -> None:
    assert left((), merge("p1", "p2", parent_id="p")) == ["p", "p>n1", "q", "q>q1", "r"]


def test_merge_wins_over_drop() -> None:
    assert left(("p", "q"), merge("p", "p1", "p2")) == ["n1", "r"]
    assert left(("p",), merge("p", "r")) == ["q", "q>q1", "n1", "n1>p1", "n1>p2"]
    assert left(("r",), merge("r")) == [*UNCHANGED[:-1], "n1"]


def test_the_first_merge_that_claims_an_id_has_it() -> None:
    found = reflect((), merge("q", "r", text="first"), merge("r", "p", text="second"), merge("q"))
    assert found is not None
    assert {o.text: o.id for o in found if o.id[0] == "n"} == {"first": "n1", "second": "n2"}
    assert left((), merge("q", "r"), merge("r", "p"), merge("q")) == [
        "n2",
        "n2>p1",
        "n2>p2",
        "n1",
        "n1>q1",
    ]


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("p", ["p", "p>p1", "p>p2", "p>n1", "q", "q>q1"]),
        ("nobody", [*UNCHANGED[:-1], "n1"]),
        ("p1", [*UNCHANGED[:-1], "n1"]),
        ("r", [*UNCHANGED[:-1], "n1"]),
        (None, [*UNCHANGED[:-1], "n1"]),
        (5, [*UNCHANGED[:-1], "n1"]),
    ],
)
def test_a_merged_observation_is_a_detail_of_a_parent_that_stays(
    parent: Any, expected: list[str]
) -> None:
    assert left((), merge("r", parent_id=parent)) == expected


def test_there_is_one_level_of_details() -> None:
    assert left((), merge("p", parent_id="q")) == ["q", "q>n1", "q>p1", "q>p2", "q>q1", "r"]
    assert left((), merge("p"), merge("p1", "p2", parent_id="p")) == [
        "n1",
        "n1>n2",
        "q",
        "q>q1",
        "r",
    ]
    assert left((), merge("p", parent_id="q"), merge("q", parent_id="p")) == [
        "n2",
        "n2>n1",
        "n2>p1",
        "n2>p2",
        "n2>q1",
        "r",
    ]


def test_what_has_details_becomes_none_itself() -> None:
    chain = [merge("r", parent_id="q"), merge("q", parent_id="p"), merge("p")]
    assert left((), *chain) == ["n3", "n3>p1", "n3>p2", "n2", "n2>q1", "n2>n1"]


def test_a_parent_that_is_dropped_is_nobodys_parent() -> None:
    assert left(("q",), merge("r", parent_id="q")) == ["p", "p>p1", "p>p2", "n1"]


def test_what_was_merged_stands_where_its_last_part_stood() -> None:
    found = reflect((), merge("r", "p", "p1", "p2"))
    assert found is not None
    assert [o.id for o in found] == ["q", "q1", "n1"]
    assert found[-1].at == LOG[-1].at


@pytest.mark.parametrize("marker", [None, "", "URGENT", 5, ["INFO"]])
def test_without_a_marker_the_most_severe_part_gives_it(marker: Any) -> None:
    assert made(merge("p", "p1", "r", marker=marker)).marker is Marker.CRITICAL
    assert made(merge("p1", "q", "q1", marker=marker), drop=("p",)).marker is Marker.COMPLETION


def test_a_merged_text_is_stored_as_an_observation_is() -> None:
    item = merge("p", "p1", "q", "r", text="a\n&lt;b&gt; password: hunter2", marker="critical")
    assert made(item).text == "a <b> password: [redacted]"
    assert made(item).marker is Marker.CRITICAL
    many = [observation(f"o{n}", LONG * 5) for n in range(9)]
    answer = json.dumps({"merge": [{"ids": [*range(1, 10)], "text": "word " * 500}]})
    condensed = parse(answer, many, ids())
    assert condensed is not None
    assert len(condensed[0].text) <= MAX_TEXT


def test_an_answer_is_read_whatever_stands_around_it() -> None:
    answer = '<think>{"drop": [1]}</think>Sure:\n```json\n{"drop": ["[6]"]}\n```'
    found = parse(answer, LOG, ids())
    assert found is not None
    assert [o.id for o in found] == ALL[:-1]


IDS = st.sampled_from([*ALL, "x", "n1"])
MERGES = st.fixed_dictionaries(
    {"ids": st.lists(IDS, max_size=5), "text": st.sampled_from(["", "a", "b c"])},
    optional={"parent_id": IDS, "marker": st.sampled_from(["INFO", "nothing"])},
)


@given(st.lists(IDS, max_size=6), st.lists(MERGES, max_size=5), st.permutations(LOG))
def test_a_reflection_loses_and_invents_nothing(
    drop: list[str], merges: list[dict[str, Any]], log: list[Observation]
) -> None:
    """In any order of the log: then some details stand before their parents, and for themselves."""
    found = parse(numbers({"drop": drop, "merge": merges}, log), log, ids("new"))
    if found is None:
        return
    kept = [o.id for o in found]
    assert kept
    assert len(set(kept)) == len(kept)
    said = [m for m in merges if m["text"]]
    claimed = {id for m in said for id in m["ids"]}
    assert {id for id in kept if id.startswith("new")} == {id for id in kept if id not in ALL}
    assert sum(id not in ALL for id in kept) <= len(said)
    dropped = set(drop) | {o.id for o in log if o.parent_id in drop}
    assert set(ALL) - claimed - dropped <= set(kept)
    tops: set[str] = set()
    for one in found:
        assert one.parent_id is None or one.parent_id in tops
        tops |= {one.id} if one.parent_id is None else set()


@given(st.text())
def test_any_answer_is_read(answer: str) -> None:
    assert parse(answer, LOG, ids()) is None


def test_observations_stay_in_the_order_of_time() -> None:
    found = reflect((), merge("q", "p"))
    assert found is not None
    tops = [o for o in found if o.parent_id is None]
    assert [o.at for o in tops] == sorted(o.at for o in tops)


def test_the_request_shows_numbers_and_the_target_and_observations_as_data() -> None:
    prompt = request("m", [observation("a", EVIL), observation("b", "two", "a")], 20)
    (asked,) = prompt.messages
    assert (prompt.task, prompt.model) == ("reflector", "m")
    assert "\n* [1] INFO (10:00) x&lt;/transcript" in asked.text
    assert "\n  * [2] INFO (10:00) two\n" in asked.text
    assert asked.text.count("<") == asked.text.count(">") == 2
    aim = asked.text.partition("</observation_log>\n")[2]
    assert re.fullmatch(r"It has \d{2,3} tokens\. At most 20 should be left\.", aim)
    assert '"drop"' in (prompt.system or "")
