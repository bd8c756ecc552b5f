"""Providers' replies, translated into Layover's values."""

from decimal import Decimal
from typing import Any

import pytest

from layover.ids import SequentialIds
from layover.plugins.models.faults import ProviderFault
from layover.plugins.models.replies import Assembly, decode, usage_of
from layover.plugins.models.responses.reply import usage_of as usage_of_response
from layover.values.message import DataPart
from layover.values.prompt import Delta, Reply
from layover.values.runs.usage import MAX_TOKENS, Usage


def assembled(*chunks: Any) -> tuple[Reply, list[Delta]]:
    assembly = Assembly(SequentialIds(), "asked")
    deltas = [delta for chunk in chunks for delta in assembly.add(chunk)]
    return assembly.reply(), deltas


def reply(*chunks: Any) -> Reply:
    return assembled(*chunks)[0]


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(args: Any = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    return chunk(tool_calls=[{**more, "function": {**function, "arguments": args}}])


def called(*chunks: Any) -> list[tuple[str, str, str]]:
    return [(c.id, c.name, c.args) for c in reply(*chunks).calls]


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": None}, {"choices": [None]}, {"choices": [{}]}]
)
def test_an_answer_without_choices_is_none(body: Any) -> None:
    with pytest.raises(ProviderFault, match="without any choices") as caught:
        reply(body)
    assert caught.value.is_transient


@pytest.mark.parametrize("body", [[], "x", 3, None])
def test_an_answer_that_is_no_object_is_none(body: Any) -> None:
    with pytest.raises(ProviderFault, match="not a JSON object"):
        reply(body)


def test_invalid_json_is_quoted() -> None:
    with pytest.raises(ProviderFault, match="invalid JSON: Oops") as caught:
        decode("<html><body>Oops</body></html>")
    assert caught.value.is_transient


def test_an_error_in_a_plain_answer_with_status_200_is_an_error() -> None:
    with pytest.raises(ProviderFault, match="bad key"):
        reply({"error": {"message": "bad key", "code": 401}})


def test_a_choice_that_ends_in_an_error_is_one() -> None:
    with pytest.raises(ProviderFault, match="upstream"):
        reply({"choices": [{"finish_reason": "error", "error": {"message": "upstream"}}]})


def test_a_refusal_is_text_that_was_filtered() -> None:
    said = reply(chunk(refusal="I can"), chunk("stop", refusal="not"))
    assert (said.text, said.finish_reason) == ("I cannot", "content-filter")
    assert said.is_refusal
    assert not reply(chunk("content_filter")).is_refusal


@pytest.mark.parametrize(
    ("told", "means"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        (None, "stop"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content-filter"),
    ],
)
def test_reasons_to_stop_without_calls(told: str | None, means: str) -> None:
    assert reply(chunk(told, content="x")).finish_reason == means


@pytest.mark.parametrize("told", ["stop", "tool_calls", "function_call", "end_turn", None])
def test_calls_are_calls_whatever_the_reason_to_stop(told: str | None) -> None:
    assert reply(piece("{}", id="a", name="f"), chunk(told)).finish_reason == "tool-calls"


def test_arguments_in_pieces_are_put_together_by_index() -> None:
    assert called(
        piece("", index=0, id="a", name="f"),
        piece("", index=1, id="b", name="g"),
        piece('{"x"', index=0),
        piece('{"y"', index=1),
        piece(":1}", index=0),
        piece(":2}", index=1),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_an_id_and_a_name_that_are_repeated_open_no_new_call() -> None:
    assert called(
        piece('{"x"', index=0, id="a", name="f"), piece(":1}", index=0, id="a", name="f")
    ) == [("a", "f", '{"x":1}')]
    assert called(piece('{"x"', id="a", name="f"), piece(":1}", id="a")) == [("a", "f", '{"x":1}')]


def test_whole_calls_that_all_have_index_0_are_several() -> None:
    assert called(
        piece('{"x":1}', index=0, id="a", name="f"), piece('{"x":2}', index=0, id="b", name="f")
    ) == [("a", "f", '{"x":1}'), ("b", "f", '{"x":2}')]


def test_pieces_without_index_and_id_belong_to_the_last_call() -> None:
    assert called(piece('{"x"', name="f"), piece(":1}"), piece("{}", name="g")) == [
        ("call_1", "f", '{"x":1}'),
        ("call_2", "g", "{}"),
    ]


@pytest.mark.parametrize("args", [None, "", "  "])
def test_a_call_without_arguments_has_empty_ones(args: str | None) -> None:
    assert called(piece(args, index=0, id="a", name="f")) == [("a", "f", "{}")]


def test_arguments_that_are_no_text_become_json() -> None:
    assert called(piece({"x": 1}, index=0, id="a", name="f")) == [("a", "f", '{"x": 1}')]


def test_the_legacy_function_call_is_a_call() -> None:
    chunks = [{"name": "f", "arguments": '{"x"'}, {"arguments": ":1}"}]
    assert called(*(chunk(function_call=c) for c in chunks)) == [("call_1", "f", '{"x":1}')]


def test_every_piece_of_a_call_is_told_with_its_id_and_name() -> None:
    _, deltas = assembled(piece("", index=0, id="a", name="f"), piece('{"x":1}', index=0))
    assert [(d.kind, d.tool_call_id, d.tool_name, d.text) for d in deltas] == [
        ("tool-call", "a", "f", ""),
        ("tool-call", "a", "f", '{"x":1}'),
    ]


def test_pieces_of_two_calls_with_one_id_are_told_apart() -> None:
    first, second = piece("[]", index=0, id="a", name="f"), piece("[", index=1, id="a", name="f")
    _, deltas = assembled(first, second, piece("]", index=1))
    assert [(d.call, d.tool_call_id, d.text) for d in deltas] == [
        (0, "a", "[]"),
        (1, "a", "["),
        (1, "a", "]"),
    ]


def test_an_emoji_cut_in_two_escapes_is_whole_again() -> None:
    said, deltas = assembled(chunk(content="a\ud83d"), chunk(content="\ude00b"))
    assert said.text == "a😀b"
    assert [d.text for d in deltas] == ["a", "😀b"]


def test_text_that_no_store_can_hold_is_replaced() -> None:
    assert reply(chunk(content="a\0b\ude00c\ud83d")).text == "a\ufffdb\ufffdc\ufffd"


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_reasoning_is_found_in_each_of_its_shapes(message: dict[str, Any]) -> None:
    said, deltas = assembled(chunk(**message))
    assert (said.reasoning, said.text) == ("hm", "")
    assert [(d.kind, d.text) for d in deltas] == [("reasoning", "hm")]


def test_text_and_thoughts_in_one_list_are_kept_apart() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]
    assert (reply(chunk(content=blocks)).reasoning, reply(chunk(content=blocks)).text) == (
        "hm",
        "hi",
    )


def twice(text: str, field: str = "reasoning_content") -> dict[str, Any]:
    return chunk(content=text, **{field: text})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_that_the_text_repeats_are_not_the_text(field: str) -> None:
    said, deltas = assembled(
        twice("Let me ", field), twice("greet.", field), chunk(content="Hi"), chunk("stop")
    )
    assert (said.reasoning, said.text) == ("Let me greet.", "Hi")
    assert [(d.kind, d.text) for d in deltas] == [
        ("reasoning", "Let me "),
        ("reasoning", "greet."),
        ("text", "Hi"),
    ]


def test_thoughts_before_a_call_that_the_text_repeats_are_not_a_text() -> None:
    said = reply(twice("Let me look."), piece("{}", index=0, id="1", name="look"), chunk("stop"))
    assert (said.reasoning, said.text, len(said.calls)) == ("Let me look.", "", 1)


@pytest.mark.parametrize("finish", ["stop", None])
def test_an_answer_that_is_all_thoughts_and_all_text_is_text(finish: str | None) -> None:
    whole = {"content": "Hello!", "reasoning_content": "Hello!"}
    said = reply({"choices": [{"message": whole, "finish_reason": finish}]})
    assert (said.reasoning, said.text) == ("", "Hello!")
    said, deltas = assembled(twice("Hel"), twice("lo!"), chunk("stop"))
    assert (said.reasoning, said.text) == ("", "Hello!")
    assert [d.kind for d in deltas] == ["reasoning", "reasoning", "restart", "text"]


def test_thoughts_before_a_text_that_came_twice_stay() -> None:
    said, deltas = assembled(chunk(reasoning="Hm."), twice("Hi", "reasoning"), chunk("stop"))
    assert said.text == "Hi"
    assert [(d.kind, d.text) for d in deltas[-2:]] == [("reasoning", "Hm.Hi"), ("text", "Hi")]


@pytest.mark.parametrize(
    ("whole", "text"),
    [
        ({"content": "Hello!"}, "Hello!"),
        ({"content": "Hello! Bye."}, "Hello! Bye."),
        ({"content": "hello"}, "Hello!"),
        ({"content": None}, "Hello!"),
        ({"content": "Hello!", "reasoning_content": "Hm."}, "Hello!"),
    ],
)
def test_a_whole_message_behind_its_pieces_says_the_rest(whole: Any, text: str) -> None:
    last = {"choices": [{"message": whole, "finish_reason": "stop"}]}
    pieces = [chunk(reasoning_content="Hm."), chunk(content="Hel"), chunk(content="lo!")]
    said, deltas = assembled(*pieces, last)
    assert (said.reasoning, said.text) == ("Hm.", text)
    assert "".join(delta.text for delta in deltas) == f"Hm.{text}"


def test_encrypted_reasoning_says_nothing() -> None:
    details = [{"type": "reasoning.encrypted", "data": "gAAA"}]
    assert reply(chunk(reasoning_details=details, content="x")).reasoning == ""


def choice(index: Any, finish: str | None = None, **message: Any) -> dict[str, Any]:
    return {"index": index, "message": message, "finish_reason": finish}


LOOK = {"id": "a", "function": {"name": "look", "arguments": '{"x":1}'}}
SEND = {"id": "b", "function": {"name": "send", "arguments": '{"y":2}'}}


def test_a_second_alternative_is_not_mixed_in() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no", "tool_calls": [SEND]}}]}
    said = reply(chunk(content="yes", tool_calls=[LOOK]), other)
    assert (said.text, [c.name for c in said.calls]) == ("yes", ["look"])


@pytest.mark.parametrize("indexes", [(0, 1), (0, 0), (1, 2), (None, None), ("0", "1")])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_an_answer_that_is_split_over_two_choices_is_one(
    indexes: tuple[Any, Any], is_reversed: bool
) -> None:
    parts: list[dict[str, Any]] = [
        {"content": "Let me look."},
        {"content": None, "tool_calls": [LOOK, SEND]},
    ]
    parts = parts[::-1] if is_reversed else parts
    pairs = zip(indexes, parts, strict=True)
    said = reply({"choices": [choice(i, "tool_calls", **part) for i, part in pairs]})
    assert (said.text, [c.name for c in said.calls]) == ("Let me look.", ["look", "send"])
    assert said.finish_reason == "tool-calls"


def test_a_streamed_answer_that_is_split_over_two_choices_is_one() -> None:
    def at(number: int, finish: str | None = None, **delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": number, "delta": delta, "finish_reason": finish}]}

    def begun(args: str, **more: Any) -> dict[str, Any]:
        return at(1, tool_calls=[{"index": 0, "function": {"arguments": args, **more}}])

    said, deltas = assembled(
        at(0, content="Let me look."),
        begun('{"x"', name="look"),
        begun(":1}"),
        at(0, "tool_calls"),
        at(1, "tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 3}},
    )
    assert (said.text, [(c.name, c.args) for c in said.calls]) == (
        "Let me look.",
        [("look", '{"x":1}')],
    )
    told = [d for d in deltas if d.kind == "tool-call"]
    assert "".join(d.text for d in told) == '{"x":1}'
    assert {d.tool_call_id for d in told} == {said.calls[0].id}
    assert said.usage.input_tokens == 3


@pytest.mark.parametrize("where", ["chunk", "choice"])
def test_usage_that_is_told_in_several_frames_is_the_largest_of_each_count(where: str) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 4}}
    frames = [
        {"prompt_tokens": 50, "completion_tokens": 1, **details},
        {"prompt_tokens": 0, "completion_tokens": 9},
        {"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 3}},
    ]
    chunks = [chunk(content="x") for _ in frames]
    for each, usage in zip(chunks, frames, strict=True):
        (each if where == "chunk" else each["choices"][0])["usage"] = usage
    assert reply(*chunks).usage == Usage(
        input_tokens=50, output_tokens=9, cached_input_tokens=4, reasoning_tokens=3
    )


def test_a_list_of_errors_is_an_error() -> None:
    with pytest.raises(ProviderFault, match="quota"):
        reply([{"error": {"message": "quota", "code": 429}}])


def test_the_last_usage_counts_and_the_model_is_the_providers() -> None:
    said = reply(
        {**chunk(content="x"), "usage": {"prompt_tokens": 1}},
        {"choices": [], "model": "m-2", "usage": {"prompt_tokens": 2, "completion_tokens": 1}},
        {"choices": [], "usage": None},
    )
    assert (said.usage.input_tokens, said.usage.output_tokens) == (2, 1)
    assert said.model == "m-2"
    assert reply(chunk(content="x")).model == "asked"
    assert reply(chunk(content="x")).usage == Usage()


def counted(read: Any, said: Any, total: Any, **more: Any) -> tuple[int, int, int]:
    tokens = {"prompt_tokens": read, "completion_tokens": said, "total_tokens": total}
    usage = usage_of(tokens | more)
    return usage.input_tokens, usage.output_tokens, usage.reasoning_tokens


@pytest.mark.parametrize(
    ("given", "output"),
    [((40, 9, 120), 80), ((40, None, 120), 80), ((40, 0, 41), 1), ((40, 9, 49), 9)],
)
def test_tokens_that_only_the_total_has_are_output(given: Any, output: int) -> None:
    """Gemini's thoughts, on its endpoint for OpenAI's clients."""
    assert counted(*given) == (40, output, 0)


@pytest.mark.parametrize(
    ("total", "more"),
    [
        (None, {}),
        ("many", {}),
        (20, {}),
        (200, {"completion_tokens_details": {"reasoning_tokens": 4}}),
        (109, {"prompt_tokens_details": {"cached_tokens": 60}}),
        (119, {"cache_creation_input_tokens": 70}),
        (179, {"cached_tokens": 60, "cache_creation_input_tokens": 70}),
    ],
)
def test_total_that_says_nothing_of_thoughts_changes_nothing(total: Any, more: Any) -> None:
    reasoning = 4 if "completion_tokens_details" in more else 0
    assert counted(40, 9, total, **more) == (40, 9, reasoning)


def test_total_without_a_part_of_it_is_not_output() -> None:
    assert counted(None, None, 118) == (0, 0, 0)


def test_usage_is_read_with_its_details() -> None:
    assert usage_of(
        {
            "prompt_tokens": 10,
            "completion_tokens": 5.0,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }
    ) == Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, reasoning_tokens=3)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens_details": {"cache_write_tokens": 4}},
        {"prompt_tokens_details": {"cache_creation_tokens": 4}},
        {"cache_creation_input_tokens": 4},
    ],
)
def test_what_was_written_to_the_cache_is_counted_apart(usage: Any) -> None:
    said = usage_of({"prompt_tokens": 10, **usage})
    assert (said.input_tokens, said.cached_input_tokens, said.cache_write_input_tokens) == (
        10,
        0,
        4,
    )


def test_halves_of_a_character_in_opaque_thoughts_are_whole_again() -> None:
    said = reply(
        chunk(reasoning_content="a\ud83d"), chunk(reasoning_content="\ude00b", content="x")
    )
    assert said.state == {"reasoning_content": "a\U0001f600b"}


def test_blocks_of_thought_are_put_together_by_their_place() -> None:
    pieces = [
        {"type": "reasoning.summary", "summary": "a", "index": 0},
        {"type": "reasoning.summary", "summary": "b", "index": 0},
        {"type": "reasoning.summary", "summary": "c", "index": 1},
        {"type": "reasoning.encrypted", "data": "d", "id": "r1"},
        {"type": "reasoning.encrypted", "data": "e", "id": "r2"},
    ]
    said = reply(*(chunk(reasoning_details=[piece]) for piece in pieces), chunk(content="x"))
    assert said.state["reasoning_details"] == [
        {"type": "reasoning.summary", "summary": "ab", "index": 0},
        *pieces[2:],
    ]


def part(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": words}], **more}


def test_thoughts_of_a_content_are_put_together_until_they_are_closed() -> None:
    pieces = [part("a"), part("b"), part("c", closed=True), part("d"), part("e")]
    said = reply(*(chunk(content=[piece]) for piece in pieces), chunk(content="x"))
    assert said.state["thinking"] == [part("abc", closed=True), part("de")]
    assert (said.reasoning, said.text) == ("abcde", "x")


def test_thoughts_of_one_content_stay_apart() -> None:
    said = reply(chunk(content=[part("a"), part("b"), {"type": "text", "text": "x"}]))
    assert said.state["thinking"] == [part("a"), part("b")]
    words: list[Any] = [{"type": "thinking", "thinking": word} for word in ("a", "b")]
    said = reply(*(chunk(content=[each]) for each in words), chunk(content="x"))
    assert said.state["thinking"] == [{"type": "thinking", "thinking": "ab"}]


@pytest.mark.parametrize("odd", [None, 7, "x", [7], [{"type": "thinking"}]])
def test_odd_thoughts_of_a_content_do_no_harm(odd: Any) -> None:
    said = reply(chunk(content=[part("a")]), chunk(content=odd), chunk(content="y"))
    assert said.text.endswith("y")


@pytest.mark.parametrize("bad", [None, "7", -1, float("nan"), {}])
def test_senseless_counts_are_zero(bad: Any) -> None:
    assert usage_of({"prompt_tokens": bad, "prompt_tokens_details": bad}) == Usage()


@pytest.mark.parametrize("absurd", [3_000_000_000, 10**40, 1e300])
def test_an_absurd_count_is_the_largest_there_is(absurd: float) -> None:
    said = usage_of({"prompt_tokens": absurd, "completion_tokens": absurd})
    assert said == Usage(input_tokens=MAX_TOKENS, output_tokens=MAX_TOKENS)


def citation(number: int, **more: Any) -> dict[str, Any]:
    place = {"start_index": 0, "end_index": number, "url": f"https://a.example/{number}"}
    return {"type": "url_citation", "url_citation": {**place, "title": "A", "content": "…", **more}}


def source(number: int) -> dict[str, Any]:
    return {
        "url": f"https://a.example/{number}",
        "title": "A",
        "start_index": 0,
        "end_index": number,
    }


def test_the_sources_of_a_text_are_data_of_the_answer() -> None:
    message = {"content": "So it is.", "annotations": [citation(1), citation(2)]}
    said = reply({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert said.data == (DataPart(name="citations", data=[source(1), source(2)]),)


def test_sources_that_come_in_pieces_are_told_once_each() -> None:
    said = reply(
        chunk(content="So "),
        chunk(annotations=[citation(1)]),
        chunk(content="it is.", annotations=[citation(1), citation(2)]),
        chunk("stop"),
    )
    assert said.text == "So it is."
    assert said.data == (DataPart(name="citations", data=[source(1), source(2)]),)


def test_sources_may_stand_in_their_annotation() -> None:
    flat = {"type": "url_citation", **citation(1)["url_citation"]}
    assert reply(chunk("stop", content="a", annotations=[flat])).data[0].data == [source(1)]


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        [],
        "https://a.example",
        [None, 3, "x", {}],
        [{"type": "file", "file": {"name": "a"}}],
        [{"type": "url_citation"}, {"type": "url_citation", "url_citation": {"title": "A"}}],
        [citation(1, url=7)],
    ],
)
def test_annotations_without_an_address_are_no_sources(annotations: Any) -> None:
    said = reply(chunk("stop", content="a", annotations=annotations))
    assert (said.text, said.data) == ("a", ())


ODD_COSTS: list[Any] = [None, True, "0.1", {}, -1, float("nan"), float("inf")]


@pytest.mark.parametrize(
    ("told", "cost"),
    [
        ({"cost": 0.00034225}, "0.00034225"),
        ({"cost": 0}, "0"),
        ({"cost": 2}, "2"),
        ({"cost": 0.02, "cost_details": {"upstream_inference_cost": 0.01}}, "0.02"),
        ({"cost": 0.02, "is_byok": False, "cost_details": {"upstream_inference_cost": 1}}, "0.02"),
        # The provider behind the router bills its own customer.
        ({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": 2.25}}, "2.75"),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0, "is_byok": True}, None),
        ({}, None),
        *(({"cost": odd}, None) for odd in ODD_COSTS),
        ({"cost": 1e300}, None),
    ],
)
def test_the_cost_that_a_provider_tells_is_the_cost(told: Any, cost: str | None) -> None:
    for usage in (usage_of({"prompt_tokens": 1, **told}), usage_of_response(told)):
        assert usage.cost_usd == (None if cost is None else Decimal(cost))


def test_a_cost_in_one_of_several_frames_is_kept() -> None:
    frames = [{"prompt_tokens": 1}, {"prompt_tokens": 9, "cost": 0.25}, {"prompt_tokens": 9}]
    said = reply(chunk("stop", content="a"), *({"choices": [], "usage": f} for f in frames))
    assert (said.usage.input_tokens, said.usage.cost_usd) == (9, Decimal("0.25"))


def test_usage_that_only_groq_has_a_field_for_is_read() -> None:
    usage = {"prompt_tokens": 304, "completion_tokens": 49, "total_tokens": 353}
    said = reply(chunk("stop", content="a") | {"x_groq": {"id": "r", "usage": usage}})
    assert (said.usage.input_tokens, said.usage.output_tokens) == (304, 49)
