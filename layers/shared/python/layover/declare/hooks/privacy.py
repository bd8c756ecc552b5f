"""`RedactPII`: personal data is replaced in requests to a provider, and put back into replies."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from layover.declare.hooks.base import (
    Hook,
    HookContext,
    ModelRequest,
    ModelResponse,
    StreamKind,
    StreamText,
)
from layover.declare.option_names import with_named_options
from layover.declare.schemas import checks
from layover.values.message import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


def _begin(inside: str) -> str:
    """Return the pattern of a beginning: no character of `inside` is before it. In JSON a line end or a tab
    is a backslash and a letter, which is not part of what follows."""
    return rf"(?:(?<!{inside})|(?<=\\[nrt]))(?!(?<=\\)[nrt])"


_KINDS = {
    "EMAIL": _begin(r"[\w.+-]") + r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "IBAN": _begin(r"\w") + r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)",
    "CARD": _begin(r"[\w.-]") + r"\d(?:[ -]?\d){12,18}(?![\w.-]*\d)",
    "PHONE": _begin(r"[\w.-]") + r"(?:\+\d|00\d|\(?0\d)(?:[ ()/.-]{0,2}\d){6,13}(?![\w-]*\d)",
}
_PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_]*_\d+\]")
_KEPT = "layover.RedactPII"


@with_named_options
class RedactPII(Hook):
    """A hook that replaces personal data in requests by placeholders, and puts it back into replies and their
    calls.

    Tools, the thread and memory have the real values; the model's provider sees `[EMAIL_1]` and the like. The
    system message is searched, and all texts, arguments and results; descriptions of tools, files and their
    names are not. The requests of memory in the background have placeholders, too, and what is stored of
    their replies has the real values. So have sub-agents without a `RedactPII` of their own, and the texts
    that an embedder reads (docs/hooks.md#private).

    Args:
        patterns: Further kinds: regular expressions by name, in capital letters, digits and `_`. None: no
            others.
        kinds: The built-in kinds that are replaced: of `EMAIL`, `IBAN`, `CARD` (with a valid check digit) and
            `PHONE`. Default: all four.

    Raises:
        DefinitionError: If a kind is unknown, a name is not in capital letters, or a pattern is not a regular
            expression.

    Example:
        ```python
        import asyncio

        from layover import Agent, RedactPII
        from layover.testing import ScriptedModel, say

        shop = Agent("shop", hooks=[RedactPII(patterns={"ORDER": r"A-[0-9]+"})])
        with shop.override(model=ScriptedModel([say("I wrote to [EMAIL_1] about [ORDER_1].")])) as model:
            result = asyncio.run(shop.generate("Write to ada@example.com about A-1007."))
        assert model.turns[0].messages[-1].text == "Write to [EMAIL_1] about [ORDER_1]."
        assert result.text == "I wrote to ada@example.com about A-1007."
        ```
    """

    idempotent: ClassVar[bool] = True
    everywhere: ClassVar[bool] = True

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        *,
        kinds: Sequence[str] = tuple(_KINDS),
    ) -> None:
        if isinstance(kinds, str) or not isinstance(kinds, Iterable):
            raise checks.fail("RedactPII: kinds", f"a list of {', '.join(_KINDS)}", kinds)
        if not isinstance(patterns, Mapping | None):
            raise checks.fail("RedactPII: patterns", "a dict of regular expressions", patterns)
        for kind in kinds:
            checks.one_of("RedactPII: a kind", kind, _KINDS)
        own = dict(patterns or {})
        for name in own:
            if not re.fullmatch("[A-Z][A-Z0-9_]*", name):
                raise checks.fail("RedactPII: a kind", "a name in capital letters", name)
        try:
            every = {**own, **{kind: _KINDS[kind] for kind in kinds}}
            self._kinds = {name: re.compile(text) for name, text in every.items()}
        except re.error as error:
            raise checks.fail("RedactPII: a pattern", "a regular expression", str(error)) from None

    def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest | None:
        """Return the request with placeholders; None if it has no personal data.

        Args:
            ctx: The run; `kept` gets the values, for `after_model`.
            request: The request.
        """
        names = _Names(_placeholders_in(request.messages, request.system or ""))

        def redacted(text: str) -> str:
            return self._redacted(text, names)

        # The system message comes first: what stands in it keeps its number, and providers their cache.
        system = request.system and redacted(request.system)
        messages = tuple(_changed(m, redacted) for m in request.messages)
        # If an agent has several such hooks, each puts its own values back.
        ctx.kept.setdefault(_KEPT, {}).update(names.values)
        if not names.values:
            return None
        return request.model_copy(update={"system": system, "messages": messages})

    def after_model(self, ctx: HookContext, response: ModelResponse) -> ModelResponse | None:
        """Return the reply with the values that the placeholders stood for; None if the request had none.

        Args:
            ctx: The run, with the values in `kept`.
            response: The reply.
        """
        values: Mapping[str, str] = ctx.kept.get(_KEPT, {})
        if not values:
            return None

        def restore(text: str) -> str:
            return _restore(text, values)

        calls = tuple(
            call.model_copy(update={"args": _everywhere(call.args, restore)})
            for call in response.calls
        )
        text = _restore(response.text, _in_json(values) if _is_json(response.text) else values)
        changes = {"text": text, "reasoning": restore(response.reasoning)}
        return response.model_copy(update={**changes, "calls": calls})

    def stream_text(self, ctx: HookContext, kind: StreamKind) -> StreamText | None:
        """Return a function that puts the values back into a reply while it is streamed; None if the request
        had none. It keeps back what may become a placeholder.

        Args:
            ctx: The run, with the values in `kept`.
            kind: The part of the reply.
        """
        values: Mapping[str, str] = ctx.kept.get(_KEPT, {})
        return _Restorer(values, kind) if values else None

    def before_embedding(self, text: str) -> str:
        """Return the text with placeholders.

        Args:
            text: One text that an embedder is to read.
        """
        return self._redacted(text, _Names(frozenset(_PLACEHOLDER.findall(text))))

    def _redacted(self, text: str, names: "_Names") -> str:
        for kind, pattern in self._kinds.items():
            text = pattern.sub(lambda match, kind=kind: names.of(kind, match[0]), text)  # type: ignore[misc]
        return text


class _Names:
    """Placeholders of one request: the same for the same value, numbered in order."""

    def __init__(self, used_names: frozenset[str]) -> None:
        self._used_names = used_names
        self._of: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self.values: dict[str, str] = {}

    def of(self, kind: str, value: str) -> str:
        """Return the placeholder of a value."""
        if kind == "CARD" and not _passes_luhn(value):
            return value
        key = (kind, value)
        while key not in self._of:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            name = f"[{kind}_{number}]"
            # A user who writes a placeholder must not get another user's data for it.
            if name not in self._used_names:
                self._of[key], self.values[name] = name, value
        return self._of[key]


def _placeholders_in(messages: tuple[Message, ...], system: str) -> frozenset[str]:
    """Return the placeholders that the request has by itself."""
    names = set(_PLACEHOLDER.findall(system))

    def look(text: str) -> str:
        names.update(_PLACEHOLDER.findall(text))
        return text

    for message in messages:
        _changed(message, look)
    return frozenset(names)


def _passes_luhn(text: str) -> bool:
    digits = [int(c) for c in reversed(text) if c.isdigit()]
    doubled = (sum(divmod(2 * d, 10)) for d in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _changed(message: Message, change: Callable[[str], str]) -> Message:
    content = tuple(_part(part, change) for part in message.content)
    output = message.model_output
    changes = {"content": content, "model_output": None if output is None else change(output)}
    return message.model_copy(update=changes)


def _part(part: Part, change: Callable[[str], str]) -> Part:
    if isinstance(part, TextPart | ReasoningPart):
        return part.model_copy(update={"text": change(part.text)})
    if isinstance(part, ToolCallPart):
        return part.model_copy(update={"args": _everywhere(part.args, change)})
    if isinstance(part, ToolResultPart):
        return part.model_copy(update={"result": _everywhere(part.result, change)})
    return part


class _Restorer:
    """Puts values back into the pieces of a text. A text that begins as JSON does gets them as JSON has
    them."""

    def __init__(self, values: Mapping[str, str], kind: StreamKind) -> None:
        self._values: Mapping[str, str] | None = None if kind == "text" else values
        if kind == "args":
            self._values = _in_json(values)
        self._plain_values = values
        self._rest = ""

    def __call__(self, piece: str, is_last: bool) -> str:
        text = self._rest + piece
        if self._values is None:
            if not text.strip() and not is_last:
                self._rest = text
                return ""
            plain = self._plain_values
            self._values = _in_json(plain) if _begins_json(text) else plain
        end = len(text) if is_last else self._end(text)
        self._rest = text[end:]
        return _restore(text[:end], self._values)

    def _end(self, text: str) -> int:
        """Return the place from which the text may still become a placeholder."""
        at = text.rfind("[")
        tail = text[at:]
        may_become = at >= 0 and any(name.startswith(tail) for name in self._plain_values)
        return at if may_become and "]" not in tail else len(text)


def _restore(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values.get(match[0], match[0]), text)


def _in_json(values: Mapping[str, str]) -> Mapping[str, str]:
    return {name: json.dumps(value, ensure_ascii=False)[1:-1] for name, value in values.items()}


def _begins_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _is_json(text: str) -> bool:
    """Return whether a text is an object or a list, as structured output is."""
    if not _begins_json(text):
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _everywhere(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _everywhere(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_everywhere(each, change) for each in value]
    return value
