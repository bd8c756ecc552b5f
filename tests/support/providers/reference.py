"""The `openai` package asked for the same: what its own client makes of an exchange."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from layover.errors import INVALID_RESPONSE, ModelError
from layover.values.prompt import Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionChunk


@dataclass
class Exchange:
    """The result of one request, in terms that both clients share."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """(id, name, JSON arguments)"""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    finish: str | None = None
    error: str | None = None
    """The name of the error's class."""
    status: int | None = None


def of_reply(reply: Reply) -> Exchange:
    """Layover's reply."""
    return Exchange(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=[(c.id, c.name, c.args) for c in reply.calls],
        model=reply.model,
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        finish=reply.finish_reason,
    )


def of_error(error: ModelError) -> Exchange:
    """Layover's error."""
    return Exchange(error=error.type, status=error.status)


async def ask(client: "AsyncOpenAI", body: dict[str, Any]) -> Exchange:
    """The reference's reply or error to this request."""
    # Most of a second: for no worker that only collects.
    from openai import APIError, APIStatusError
    from openai.types.chat import ChatCompletion

    try:
        answer = await client.chat.completions.create(**body)
        return _plain(answer) if isinstance(answer, ChatCompletion) else await _streamed(answer)
    except APIStatusError as error:
        return Exchange(error=type(error).__name__, status=error.status_code)
    except APIError as error:
        return Exchange(error=type(error).__name__)


def _plain(answer: "ChatCompletion") -> Exchange:
    if not answer.choices:  # whatever the types say
        return Exchange(error=INVALID_RESPONSE)
    choice = answer.choices[0]
    said = choice.message
    return Exchange(
        text=said.content or said.refusal or "",
        reasoning=_thought(said.model_extra),
        calls=[
            (c.id, c.function.name, c.function.arguments)
            for c in said.tool_calls or ()
            if c.type == "function"
        ],
        model=answer.model,
        input_tokens=answer.usage.prompt_tokens if answer.usage else 0,
        output_tokens=answer.usage.completion_tokens if answer.usage else 0,
        finish=choice.finish_reason,
    )


async def _streamed(chunks: "AsyncIterator[ChatCompletionChunk]") -> Exchange:
    seen = Exchange()
    async for chunk in chunks:
        seen.model = chunk.model or seen.model
        if chunk.usage:
            seen.input_tokens = chunk.usage.prompt_tokens
            seen.output_tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            seen.text += choice.delta.content or choice.delta.refusal or ""
            seen.reasoning += _thought(choice.delta.model_extra)
            seen.finish = choice.finish_reason or seen.finish
            for piece in choice.delta.tool_calls or ():
                if piece.index == len(seen.calls):
                    seen.calls.append(("", "", ""))
                call_id, name, args = seen.calls[piece.index]
                more = piece.function
                seen.calls[piece.index] = (
                    call_id or piece.id or "",
                    name or (more.name if more else "") or "",
                    args + ((more.arguments if more else "") or ""),
                )
    return seen


def _thought(extra: dict[str, Any] | None) -> str:
    """The fields that the package has no types for."""
    known = extra or {}
    return known.get("reasoning_content") or known.get("reasoning") or ""
