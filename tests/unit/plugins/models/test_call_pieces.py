"""Calls that arrive in pieces: ids, indexes and names as servers send them."""

import json
from itertools import chain, zip_longest
from typing import Any

import pytest

from layover.ids import SequentialIds
from layover.plugins.models.call_pieces import CUT, is_unfinished_json
from layover.plugins.models.replies import Assembly
from layover.values.prompt import Delta, Reply

TOOLS = ("book", "cancel", "cancel_draft", "list_rooms")
ARGS = '{"hotel": "Krone", "guest": {"name": "Ada {1}", "nights": 2}}'
OTHER = '{"hotel": "Linde", "guest": {"name": "Bo", "nights": 1}}'
ABSENT: Any = "(absent)"


def piece(args: Any = "", *, index: Any = 0, id: Any = ABSENT, name: Any = ABSENT) -> Any:
    function = {"arguments": args} | ({} if name is ABSENT else {"name": name})
    given = {"index": index, "id": id}
    call = {n: value for n, value in given.items() if value is not ABSENT} | {"function": function}
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


def end(reason: str | None = "tool_calls") -> Any:
    return {"choices": [{"delta": {}, "finish_reason": reason}]}


def assembled(*chunks: Any, tools: Any = TOOLS) -> tuple[Reply, list[Delta]]:
    assembly = Assembly(SequentialIds(), "m", "", tools)
    deltas = [delta for chunk in chunks for delta in assembly.add(chunk)]
    return assembly.reply(), deltas


def called(*chunks: Any, finish: str = "tool_calls") -> list[tuple[str, str]]:
    """The calls of a stream; what its deltas told adds up to them."""
    reply, deltas = assembled(*chunks, end(finish))
    for at, call in enumerate(reply.calls):
        of_call = [d for d in deltas if d.call == at]
        assert {(d.tool_call_id, d.tool_name) for d in of_call} == {(call.id, call.name)}
        assert "".join(d.text for d in of_call).strip() in (call.args, "")
    return [(call.name, call.args) for call in reply.calls]


def cut(args: str, size: int) -> list[str]:
    return [args[at : at + size] for at in range(0, len(args), size)]


# Ids


@pytest.mark.parametrize("ids", [["a", "b", "c"], ["a", "", ""], ["", "", ""], [None, "a", "b"]])
@pytest.mark.parametrize("index", [0, "0", 0.0, 3, None, ABSENT], ids=str)
@pytest.mark.parametrize("size", [1, 4, 25, 500])
def test_an_id_that_changes_from_piece_to_piece_opens_no_call(
    ids: list[Any], index: Any, size: int
) -> None:
    pieces = cut(ARGS, size)
    rest = [piece(p, index=index, id=ids[1 + at % 2]) for at, p in enumerate(pieces)]
    assert called(piece(index=index, id=ids[0], name="book"), *rest) == [("book", ARGS)]


@pytest.mark.parametrize("index", [0, None, ABSENT], ids=str)
@pytest.mark.parametrize("size", [3, 11, 40])
@pytest.mark.parametrize("id", ["a{}", "", None, "same"])
def test_a_name_that_each_piece_repeats_opens_no_call(index: Any, size: int, id: Any) -> None:
    pieces = cut(ARGS, size)
    named = [
        piece(p, index=index, id=id and id.format(at), name="book") for at, p in enumerate(pieces)
    ]
    assert called(*named) == [("book", ARGS)]


@pytest.mark.parametrize("ids", [["a", "b"], ["a", "a"], ["", ""], [None, None]])
@pytest.mark.parametrize("index", [0, None, ABSENT], ids=str)
def test_whole_calls_one_after_another_are_several(ids: list[Any], index: Any) -> None:
    assert called(
        piece(ARGS, index=index, id=ids[0], name="book"),
        piece(OTHER, index=index, id=ids[1], name="book"),
        piece(OTHER, index=index, id=ids[1], name="cancel"),
    ) == [("book", ARGS), ("book", OTHER), ("cancel", OTHER)]


@pytest.mark.parametrize("ids", [["a", "b"], ["a", "a"], ["", ""], [None, None]])
@pytest.mark.parametrize("index", [0, None, ABSENT], ids=str)
@pytest.mark.parametrize("size", [2, 30, 500])
def test_calls_one_after_another_in_pieces_are_several(
    ids: list[Any], index: Any, size: int
) -> None:
    chunks = []
    for call_id, args in zip(ids, (ARGS, OTHER), strict=True):
        chunks.append(piece(index=index, id=call_id, name="book"))
        chunks += [piece(p, index=index) for p in cut(args, size)]
    assert called(*chunks) == [("book", ARGS), ("book", OTHER)]


def test_an_id_that_comes_late_is_the_calls() -> None:
    reply, _ = assembled(piece(id=None), piece(ARGS, id="late", name="book"), end())
    assert [(c.id, c.name) for c in reply.calls] == [("late", "book")]


# Indexes


@pytest.mark.parametrize("ids", [["a", "b"], ["a", "a"], ["", ""], [None, None]])
@pytest.mark.parametrize("indexes", [[0, 1], ["0", "1"], [1, 2], [7, 3]])
@pytest.mark.parametrize("size", [1, 5, 30])
@pytest.mark.parametrize("names", [["book", "book"], ["book", "cancel"]])
def test_pieces_of_parallel_calls_are_told_apart_by_their_index(
    ids: list[Any], indexes: list[Any], size: int, names: list[str]
) -> None:
    headers = [piece(index=i, id=c, name=n) for i, c, n in zip(indexes, ids, names, strict=True)]
    mixed = zip_longest(
        *(
            [piece(p, index=i) for p in cut(args, size)]
            for i, args in zip(indexes, (ARGS, OTHER), strict=True)
        )
    )
    chunks = [*headers, *(p for p in chain.from_iterable(mixed) if p is not None)]
    assert called(*chunks) == [(names[0], ARGS), (names[1], OTHER)]


@pytest.mark.parametrize("index", [ABSENT, None], ids=str)
@pytest.mark.parametrize("size", [1, 5, 30])
def test_pieces_of_parallel_calls_without_an_index_are_told_apart_by_their_id(
    index: Any, size: int
) -> None:
    headers = [piece(index=index, id=i, name="book") for i in "ab"]
    mixed = zip_longest(
        [piece(p, index=index, id="a") for p in cut(ARGS, size)],
        [piece(p, index=index, id="b") for p in cut(OTHER, size)],
    )
    chunks = [*headers, *(p for p in chain.from_iterable(mixed) if p is not None)]
    assert called(*chunks) == [("book", ARGS), ("book", OTHER)]


@pytest.mark.parametrize("id", ["a", "", None, "a{}"])
def test_an_index_that_counts_pieces_opens_no_call(id: Any) -> None:
    pieces = [
        piece(p, index=at, id=id and id.format(at)) for at, p in enumerate(cut(ARGS, 9), start=1)
    ]
    assert called(piece(index=0, id="a", name="book"), *pieces) == [("book", ARGS)]


def test_an_index_that_is_none_is_no_index() -> None:
    odds: list[Any] = ["x", [], {}, float("nan"), 1.5]
    for odd in odds:
        assert called(piece(ARGS[:9], index=odd, name="book"), piece(ARGS[9:], index=odd)) == [
            ("book", ARGS)
        ]


# Names


@pytest.mark.parametrize(
    "names",
    [
        ["can", "cel", "_draft"],
        ["cancel", "_draft"],
        ["c", "a", "n", "cel_draf", "t"],
        ["can", "cancel", "cancel_draft"],
        ["cancel_draft", "cancel_draft", ""],
        ["cancel_draft", " ", None],
    ],
)
@pytest.mark.parametrize("id", ["a", "", None, "a{}"])
def test_pieces_of_a_name_are_joined_until_they_are_a_tool(names: list[Any], id: Any) -> None:
    headers = [piece(id=id and id.format(at), name=name) for at, name in enumerate(names)]
    assert called(*headers, piece(ARGS[:8]), piece(ARGS[8:])) == [("cancel_draft", ARGS)]


def test_pieces_of_a_name_may_come_with_the_arguments() -> None:
    chunks = piece(ARGS[:20], name="cancel"), piece(ARGS[20:30], name="_dr")
    reply, _ = assembled(*chunks, piece(ARGS[30:], name="aft"), end())
    assert [(c.name, c.args) for c in reply.calls] == [("cancel_draft", ARGS)]


def test_no_delta_tells_a_name_before_it_is_known() -> None:
    _, deltas = assembled(
        piece(id="a", name="cancel"), piece(name="_draft"), piece(ARGS[:5]), piece(ARGS[5:]), end()
    )
    assert {d.tool_name for d in deltas} == {"cancel_draft"}
    assert [d.text for d in deltas] == ["", ARGS[:5], ARGS[5:]]


def test_names_of_two_tools_without_arguments_are_not_joined() -> None:
    assert called(piece(id="a", name="list_rooms"), piece(id="b", name="book")) == [
        ("list_rooms", "{}"),
        ("book", "{}"),
    ]


def test_the_beginning_of_another_tools_name_is_a_name_of_its_own() -> None:
    assert called(piece(ARGS, id="a", name="cancel"), piece(ARGS, id="b", name="cancel_draft")) == [
        ("cancel", ARGS),
        ("cancel_draft", ARGS),
    ]


def test_a_tool_that_the_request_does_not_offer_keeps_its_name() -> None:
    assert called(piece(id="a", name="look"), piece(ARGS)) == [("look", ARGS)]
    assert called(piece(id="a", name="loo"), piece(name="k_up"), piece(ARGS)) == [("look_up", ARGS)]


# Arguments


@pytest.mark.parametrize("beginning", ["{}", " { }\n", "{}{}"])
@pytest.mark.parametrize("ids", [["a", None], ["a", "a"], ["a", "b"]])
@pytest.mark.parametrize("name", [ABSENT, "book"], ids=["bare", "named"])
@pytest.mark.parametrize("size", [2, 500])
def test_an_empty_object_before_the_arguments_is_a_beginning(
    beginning: str, ids: list[Any], name: Any, size: int
) -> None:
    rest = [piece(p, id=ids[1], name=name) for p in cut(ARGS, size)]
    assert called(piece(beginning, id=ids[0], name="book"), *rest) == [("book", ARGS)]


def test_an_empty_object_in_two_pieces_is_a_beginning() -> None:
    chunks = [piece(p) for p in ("{", "}", *cut(ARGS, 7))]
    assert called(piece(id="a", name="book"), *chunks) == [("book", ARGS)]


def test_a_plain_answer_may_have_the_empty_object_too() -> None:
    message = {"tool_calls": [{"id": "a", "function": {"name": "book", "arguments": "{}" + ARGS}}]}
    reply, _ = assembled({"choices": [{"message": message}]})
    assert reply.calls[0].args == ARGS


@pytest.mark.parametrize("args", [None, "", " ", "{}", {}])
def test_a_call_without_arguments_has_none(args: Any) -> None:
    assert called(piece(args, id="a", name="list_rooms")) == [("list_rooms", "{}")]


@pytest.mark.parametrize("finish", ["length", "max_tokens", "content_filter"])
def test_a_call_that_was_cut_before_its_arguments_is_not_one_without_any(finish: str) -> None:
    headers = piece(index=0, id="a", name="list_rooms"), piece(index=1, id="b", name="book")
    reply, _ = assembled(*headers, end(finish))
    assert [(c.name, c.args) for c in reply.calls] == [("list_rooms", "{}"), ("book", CUT)]


def test_arguments_that_stay_unfinished_are_kept_as_they_came() -> None:
    unfinished = ARGS[:-1]
    assert called(piece(unfinished, id="a", name="book")) == [("book", unfinished)]


@pytest.mark.parametrize("last", [{"id": "a", "name": "book"}, {"id": "a"}, {}, {"name": "book"}])
def test_a_stream_that_ends_with_the_whole_call_again_has_one(last: dict[str, Any]) -> None:
    chunks = [piece(p) for p in cut(ARGS, 10)]
    assert called(piece(id="a", name="book"), *chunks, piece(ARGS, **last)) == [("book", ARGS)]


@pytest.mark.parametrize("empty", [{}, {"function": {}}, {"id": "", "function": {"name": ""}}])
def test_an_empty_call_is_none(empty: dict[str, Any]) -> None:
    for said in ({"delta": {"tool_calls": [empty]}}, {"message": {"tool_calls": [empty]}}):
        text = {"choices": [{"delta": {"content": "Done."}}]}
        assert assembled(text, {"choices": [said]}, end("stop"))[0].calls == ()


def test_an_empty_legacy_call_is_none() -> None:
    message = {"content": "4", "function_call": {"name": "", "arguments": ""}, "tool_calls": None}
    reply, _ = assembled({"choices": [{"message": message, "finish_reason": ""}]})
    assert (reply.text, reply.calls, reply.finish_reason) == ("4", (), "stop")


@pytest.mark.parametrize("at", range(1, len(ARGS)))
def test_every_beginning_of_json_may_go_on(at: int) -> None:
    assert is_unfinished_json(ARGS[:at])
    assert not is_unfinished_json(ARGS[:at] + "\0")


RAW = '{"text": "Buy:\n- milk\n\t- bread", "tags": ["shop"]}'


@pytest.mark.parametrize("size", [1, 9, 500])
@pytest.mark.parametrize("id", ["a{}", "", None, "same"])
def test_line_breaks_within_arguments_cut_no_call(size: int, id: Any) -> None:
    pieces = [piece(p, id=id and id.format(at), name="book") for at, p in enumerate(cut(RAW, size))]
    reply, _ = assembled(*pieces, piece(RAW, id="same", name="book"), end())
    meant = json.loads(RAW, strict=False)
    assert [json.loads(call.args) for call in reply.calls] == [meant] * (2 if id == "a{}" else 1)


def test_pieces_of_one_byte_with_a_name_each_are_read_at_all_lengths() -> None:
    args = json.dumps({"text": "x" * 300})
    assert called(*(piece(p, id=f"a{n}", name="book") for n, p in enumerate(args))) == [
        ("book", args)
    ]
