"""`stream_text`: hooks change a reply while it arrives. Nothing of this is stored: `after_model` has the last
word, and what differs from it is taken back."""

import json
import logging
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from layover.declare.hooks.base import HookContext, StreamKind, StreamText, name_of
from layover.values.message import ReasoningPart, ToolCallPart
from layover.values.prompt import Delta, Reply
from layover.values.runs.run import StepRecord
from layover.values.text import sanitise

logger = logging.getLogger("layover")

_KINDS: dict[str, StreamKind] = {"text": "text", "reasoning": "reasoning", "tool-call": "args"}


class StreamChanges:
    """The hooks' changes of one reply while it arrives. `hooks`: those that change the whole reply later, in
    their order."""

    def __init__(self, hooks: Sequence[Any], ctx: Callable[[], HookContext]) -> None:
        self._hooks = hooks
        self._ctx = ctx
        self._open: tuple[Delta, list[StreamText]] | None = None
        self._named_calls: set[int] = set()
        self._has_failed = False
        self.is_empty = True
        """True if nothing is shown of the reply."""

    def change(self, delta: Delta) -> list[Delta]:
        """Return what is shown after this piece. A hook that raises shows nothing more of the reply."""
        if delta.kind == "restart":
            self._forget()
            return [delta]
        if self._has_failed:
            return []
        try:
            return self._change(delta)
        except Exception as error:  # the author's code may raise anything
            self._has_failed = True
            names = ", ".join(map(name_of, self._hooks))
            message = (
                "a hook failed while a reply was streamed: the rest comes with the whole reply"
            )
            logger.warning(message, extra={"hooks": names, "cause": type(error).__name__})
            return []

    def finish(self) -> list[Delta]:
        """Return what was held back until the end."""
        if self._has_failed:
            return []
        try:
            return self._close()
        except Exception:  # as above; what is missing is told with the whole reply
            self._has_failed = True
            return []

    def keeps(self, reply: Reply, step: StepRecord) -> bool:
        """Return whether what was shown of the model's reply is what is stored of it."""
        if self._has_failed:
            return False
        try:
            return self._has(reply, step)
        except Exception:  # as above
            return False

    def _has(self, reply: Reply, step: StepRecord) -> bool:
        content = step.message.content
        reasoning = "".join(part.text for part in content if isinstance(part, ReasoningPart))
        calls = [part for part in content if isinstance(part, ToolCallPart)]
        return (
            self._whole("text", reply.text) == step.message.text
            and self._whole("reasoning", reply.reasoning) == reasoning
            and [sanitise(call.name) for call in reply.calls] == [call.tool_name for call in calls]
            and all(
                _is_json_of(self._whole("args", request.args), call.args)
                for request, call in zip(reply.calls, calls, strict=True)
            )
        )

    def _whole(self, kind: StreamKind, text: str) -> str:
        return sanitise(reduce(lambda t, change: change(t, True), self._begin(kind), text))

    def _change(self, delta: Delta) -> list[Delta]:
        deltas = []
        if self._open is None or _place(self._open[0]) != _place(delta):
            deltas += self._close()
            self._open = (delta, self._begin(_KINDS[delta.kind]))
        piece = self._through(delta, self._open[1], delta.text, is_last=False)
        # The first piece of a call names it.
        if piece.text or (delta.kind == "tool-call" and delta.call not in self._named_calls):
            deltas += self._show(piece)
        return deltas

    def _close(self) -> list[Delta]:
        if self._open is None:
            return []
        (first, changes), self._open = self._open, None
        rest = self._through(first, changes, "", is_last=True)
        return self._show(rest) if rest.text else []

    def _begin(self, kind: StreamKind) -> list[StreamText]:
        changes = (hook.stream_text(self._ctx(), kind) for hook in self._hooks)
        return [change for change in changes if change is not None]

    def _through(
        self, delta: Delta, changes: Sequence[StreamText], text: str, *, is_last: bool
    ) -> Delta:
        return delta._replace(text=reduce(lambda t, change: change(t, is_last), changes, text))

    def _show(self, delta: Delta) -> list[Delta]:
        self.is_empty = False
        if delta.kind == "tool-call":
            self._named_calls.add(delta.call)
        return [delta]

    def _forget(self) -> None:
        self._open = None
        self._named_calls.clear()
        self._has_failed = False
        self.is_empty = True


def _place(delta: Delta) -> tuple[str, int]:
    return delta.kind, delta.call


def _is_json_of(text: str, args: Any) -> bool:
    try:
        return bool(json.loads(text or "{}") == args)
    except (ValueError, RecursionError):
        return bool(text == args)
