"""Hooks that change a reply while it is streamed (`stream_text`): what users see, piece by piece, is what is
stored, or it is taken back."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover import Agent, Hook, HookContext, ModelResponse, RedactPII, Retry, tool
from layover.clock import ManualClock
from layover.ports import OnDelta, send_deltas
from layover.values.prompt import Delta, Prompt, Reply, RequestedCall
from layover.values.runs.run import Status
from layover.values.runs.usage import Usage
from support.worlds.runs import Bench

MAIL = "ada@example.com"
ASKED = f"Write to {MAIL} and to bob@example.com."


class Pieces:
    """A model that streams these pieces, a list for each reply."""

    def __init__(self, *replies: list[Delta], stored: str | None = None) -> None:
        self._replies = list(replies)
        self._stored = stored

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Stream the next reply."""
        deltas = self._replies.pop(0)
        await send_deltas(on_delta, *deltas)
        restarts = [at for at, delta in enumerate(deltas) if delta.kind == "restart"]
        last = deltas[restarts[-1] + 1 if restarts else 0 :]
        names = {d.call: d.tool_name for d in reversed(last) if d.kind == "tool-call"}
        calls = tuple(
            RequestedCall(id=f"c{at}", name=names[at], args=joined(last, "tool-call", at))
            for at in sorted(names)
        )
        text = joined(last, "text") if self._stored is None else self._stored
        return Reply(
            text=text, reasoning=joined(last, "reasoning"), calls=calls, model="m", usage=Usage()
        )


def joined(deltas: list[Delta], kind: str, call: int = 0) -> str:
    return "".join(d.text for d in deltas if d.kind == kind and d.call == call)


def texts(*pieces: str) -> list[Delta]:
    return [Delta("text", piece) for piece in pieces]


def shown(events: list[Any], kind: str = "text-delta") -> list[str]:
    """What a client shows: what came before a step began again is gone."""
    pieces: dict[int, list[str]] = {}
    for event in events:
        if event.type == "turn-start":
            pieces[event.step] = []
        elif event.type == kind:
            field = "args_delta" if kind == "tool-call-delta" else "text"
            pieces[event.step].append(getattr(event, field))
    return [piece for step in pieces.values() for piece in step]


async def streamed(
    model: Pieces, *hooks: Any, asked: str = ASKED, **options: Any
) -> tuple[Any, list[Any]]:
    bench = Bench(Agent("a", model="m", hooks=list(hooks), **options), model)
    run = await bench.go(asked, stream=True)
    assert run.status is Status.SUCCESS, run.error
    return run, list(await bench.events(run.id))


async def test_reply_is_streamed_although_its_personal_data_is_put_back() -> None:
    pieces = ["I wrote ", "to [", "EMA", "IL_1", "] and [EMAIL", "_2]. ", "All [done]", "."]
    run, events = await streamed(Pieces(texts(*pieces)), RedactPII())
    whole = f"I wrote to {MAIL} and bob@example.com. All [done]."
    told = shown(events)
    assert run.text == "".join(told) == whole
    assert told[0] == "I wrote "
    assert len(told) > 4
    assert [e.type for e in events].count("turn-start") == 1


async def test_text_that_only_looks_as_if_something_stood_for_data_is_shown_at_the_end() -> None:
    run, events = await streamed(Pieces(texts("See [EMAIL", "_")), RedactPII())
    assert run.text == "".join(shown(events)) == "See [EMAIL_"


async def test_reasoning_and_arguments_are_put_back_as_well() -> None:
    sent: list[str] = []

    @tool
    def mail(to: str, text: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    first = [
        Delta("reasoning", "Mail [EMA"),
        Delta("reasoning", "IL_1]"),
        Delta("tool-call", "", tool_call_id="c0", tool_name="mail"),
        Delta("tool-call", '{"to": "[EMAIL', tool_name="mail"),
        Delta("tool-call", '_1]", "text": "a \\"b\\""}', tool_name="mail"),
    ]
    _, events = await streamed(Pieces(first, texts("Done.")), RedactPII(), tools=[mail])
    assert sent == [MAIL]
    assert "".join(shown(events, "reasoning-delta")) == f"Mail {MAIL}"
    args = json.loads("".join(shown(events, "tool-call-delta")))
    assert args == {"to": MAIL, "text": 'a "b"'}
    assert [e.type for e in events].count("turn-start") == 2


async def test_data_in_json_is_shown_as_json_has_it() -> None:
    hook = RedactPII({"NAME": r"Ada \"The\" L\."}, kinds=())
    text = ['{"to": "[NA', 'ME_1]"}']
    run, events = await streamed(Pieces(texts(*text)), hook, asked='Ask Ada "The" L. now')
    assert json.loads("".join(shown(events))) == {"to": 'Ada "The" L.'}
    assert run.text == "".join(shown(events))


async def test_reply_that_begins_again_shows_nothing_of_the_broken_one() -> None:
    deltas = [*texts("Lost [EMAI"), Delta("restart"), *texts("Found [EMAIL_1]", ".")]
    run, events = await streamed(Pieces(deltas), RedactPII())
    assert run.text == "".join(shown(events)) == f"Found {MAIL}."


async def test_request_without_personal_data_streams_as_without_the_hook() -> None:
    run, events = await streamed(Pieces(texts("a [", "b")), RedactPII(), asked="hello")
    assert shown(events) == ["a [", "b"]
    assert run.text == "a [b"


class Holds(Hook):
    """Has no `stream_text`."""

    def after_model(self, ctx: HookContext, response: ModelResponse) -> None:
        """Change nothing."""


async def test_one_hook_that_must_see_the_whole_reply_holds_it_back() -> None:
    _, events = await streamed(Pieces(texts("a ", "b ", "[EMAIL_1]")), RedactPII(), Holds())
    assert shown(events) == [f"a b {MAIL}"]


class Louder(Hook):
    """Shows capitals, and stores what `stored` makes of the text."""

    def __init__(self, stored: Callable[[str], str] = str.upper) -> None:
        self.stored = stored

    def after_model(self, ctx: HookContext, response: ModelResponse) -> ModelResponse:
        """Change the whole text."""
        return response.model_copy(update={"text": self.stored(response.text)})

    def stream_text(self, ctx: HookContext, kind: str) -> Callable[[str, bool], str] | None:
        """Change a piece."""
        return (lambda piece, is_last: piece.upper()) if kind == "text" else None


async def test_hooks_change_a_piece_in_their_order() -> None:
    run, events = await streamed(Pieces(texts("for ", "[EMAIL_1]")), RedactPII(), Louder())
    assert "".join(shown(events)) == run.text == f"for {MAIL}".upper()
    assert len(shown(events)) == 2


async def test_what_differs_from_the_stored_reply_is_taken_back() -> None:
    run, events = await streamed(Pieces(texts("a ", "b")), Louder(lambda text: text + "!"))
    assert run.text == "a b!"
    assert shown(events) == ["a b!"]
    assert [e.type for e in events].count("turn-start") == 2


async def test_call_that_a_hook_takes_away_is_taken_back() -> None:
    class Drops(Louder):
        def after_model(self, ctx: HookContext, response: ModelResponse) -> ModelResponse:
            """Drop the calls."""
            return response.model_copy(update={"calls": (), "text": "No."})

    @tool
    def look() -> str:
        """Look."""
        raise AssertionError

    call = [Delta("tool-call", "{}", tool_call_id="c0", tool_name="look")]
    run, events = await streamed(Pieces(call), Drops(), tools=[look])
    assert run.text == "No."
    assert shown(events, "tool-call-delta") == []
    assert shown(events) == ["No."]


async def test_hook_that_raises_while_a_reply_is_streamed_costs_nothing_but_the_pieces(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Breaks(Louder):
        def stream_text(self, ctx: HookContext, kind: str) -> Callable[[str, bool], str] | None:
            """Break at the second piece."""

            def change(piece: str, is_last: bool) -> str:
                if piece == "secret":
                    raise LookupError(piece)
                return piece.upper()

            return change

    run, events = await streamed(Pieces(texts("a ", "secret", " c")), Breaks())
    assert run.text == "A SECRET C"
    assert shown(events) == ["A SECRET C"]
    assert "a hook failed while a reply was streamed" in caplog.text
    assert "secret" not in caplog.text


async def test_reply_that_a_hook_rejects_is_taken_back() -> None:
    class Strict(Louder):
        def after_model(self, ctx: HookContext, response: ModelResponse) -> ModelResponse:
            """Reject the first one."""
            if "no" in response.text:
                raise Retry("say yes")
            return super().after_model(ctx, response)

    run, events = await streamed(Pieces(texts("no, ", "never"), texts("ye", "s")), Strict())
    assert run.text == "YES"
    assert "".join(shown(events)) == "YES"


WORDS = ["[EMAIL_1]", "[EMAIL_12]", "[EMAIL_3]", "[", "[EMA", "]", " ", "a", "{"]


@given(st.lists(st.sampled_from(WORDS)).map("".join), st.integers(1, 12))
def test_pieces_of_any_size_make_the_text_that_the_whole_makes(text: str, size: int) -> None:
    hook = RedactPII()
    ctx = HookContext("r", "t", "ann", "a", {}, ManualClock().now())
    ctx.kept["layover.RedactPII"] = {"[EMAIL_1]": MAIL, "[EMAIL_12]": "bob@example.com"}
    change = hook.stream_text(ctx, "text")
    assert change is not None
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    told = "".join([*(change(piece, False) for piece in pieces), change("", True)])
    whole = hook.after_model(ctx, ModelResponse(text=text, model="m"))
    assert whole is not None
    assert told == whole.text
