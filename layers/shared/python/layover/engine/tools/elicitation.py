"""A call in whose middle a server asks its user (docs/guides/mcp.md#elicitation).

No connection is held while a person thinks. The call waits like one that suspended itself, with all that its
server has asked and was answered. Once a person has answered, the call is made again, with the answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlsplit

from layover.declare.context import FormRequest, Resumption
from layover.declare.tools.questions import question_of
from layover.declare.tools.server import ToolServer
from layover.errors import DefinitionError
from layover.ports.tool_servers import Answers, ServerAsks, ToolServerError
from layover.values.text import json_size

MAX_ROUNDS = 10
"""Calls that may end with a question before one ends with a result."""
MAX_QUESTIONS = 5
"""Questions of one round."""
MAX_STATE = 64 * 1024
"""Bytes of what a server wants back with the answers."""


@dataclass(frozen=True)
class Exchange:
    """The questions of a call's server, and their answers. `open`: the questions that nobody has answered,
    as they are journaled. `state`: the server's own."""

    responses: Mapping[str, Any] = field(default_factory=dict)
    open: tuple[Mapping[str, Any], ...] = ()
    state: str | None = None
    rounds: int = 0

    @classmethod
    def of(cls, resumed: Any) -> Self:
        """Return the exchange that a call goes on with. `resumed`: `ctx.resume`."""
        if not isinstance(resumed, Resumption):
            return cls()
        memo = resumed.memo
        (answered, *rest) = memo["open"]
        responses = {**memo["responses"], answered["key"]: _response(answered, resumed.data)}
        return cls(responses, tuple(rest), memo["state"], memo["rounds"])

    @property
    def answers(self) -> Answers | None:
        """The answers to send with the call; None before the first question."""
        return Answers(self.responses, self.state) if self.rounds else None

    def ask(self) -> FormRequest:
        """Return the request to show the first open question to a person."""
        first = self.open[0]
        memo = {
            "responses": dict(self.responses),
            "open": [dict(each) for each in self.open],
            "state": self.state,
            "rounds": self.rounds,
        }
        return FormRequest(first["payload"], first["schema"], memo)

    def asks(self, server: ToolServer, wish: ServerAsks, *, may_repeat: bool) -> FormRequest:
        """Return the request for what the server asks now. `may_repeat`: the call may take effect twice.
        Raises ToolServerError if nobody can be asked."""
        host = urlsplit(server.url).hostname or server.name
        if wish.begins_anew and not may_repeat:
            raise _unanswered("in the middle of a call that it would have to begin anew")
        if self.rounds >= MAX_ROUNDS:
            raise _unanswered(f"more than {MAX_ROUNDS} times")
        if wish.state is not None and json_size(wish.state) > MAX_STATE:
            raise _unanswered(f"with more than {MAX_STATE // 1024} KB to give back")
        if not 0 < len(wish.questions) <= MAX_QUESTIONS:
            raise _unanswered(f"for nothing, or for more than {MAX_QUESTIONS} things at once")
        questions = []
        for key, params in wish.questions.items():
            try:
                question = question_of(server.name, host, params)
            except DefinitionError as error:
                raise _unanswered(f"for what nobody can be shown: {error.message}") from error
            questions.append(
                {
                    "key": key,
                    "payload": question.payload,
                    "schema": question.schema,
                    "decline": question.decline,
                    "is_form": "url" not in question.payload,
                }
            )
        # Up to 2025-11-25 the call begins anew, and its earlier questions come again.
        responses = self.responses if wish.begins_anew else {}
        return replace(
            self,
            responses=responses,
            open=tuple(questions),
            state=wish.state,
            rounds=self.rounds + 1,
        ).ask()


def _response(question: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Return a person's answer in the protocol's words."""
    values = dict(data) if isinstance(data, Mapping) else {}
    if values.pop(question["decline"], False):
        return {"action": "decline"}
    return {"action": "accept", "content": values} if question["is_form"] else {"action": "accept"}


def _unanswered(what: str) -> ToolServerError:
    return ToolServerError(f"it asked its user {what}", sent=True)
