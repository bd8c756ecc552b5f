"""The questions of a server in the middle of a call. Importing this module loads the types of the package
`mcp`."""

import hashlib
from typing import Any

from mcp_types import ElicitResult

from layover.ports.tool_servers import Answers, ServerAsks
from layover.values.base import compact_json

_ASKS = "elicitation/create"
_LENGTH = 16
"""Hexadecimal digits of a question's name."""


class Dialogue:
    """The questions of one call, and their answers.

    Up to 2025-11-25 a server asks on the stream of a call that goes on meanwhile. Nobody can hold that stream
    for as long as a person takes: a question without an answer is cancelled, and the call is made again once
    there is one."""

    def __init__(self, answers: Answers | None) -> None:
        self._answers = answers
        self._counts: dict[str, int] = {}
        self.asks: ServerAsks | None = None
        """The first question without an answer."""

    def answer(self, params: dict[str, Any]) -> ElicitResult:
        """Return the answer to a question: the same question gets its first answer first."""
        facts = [params.get(name) for name in ("mode", "message", "requestedSchema", "url")]
        digits = hashlib.sha256(compact_json(facts).encode("utf-8", "replace")).hexdigest()[
            :_LENGTH
        ]
        count = self._counts[digits] = self._counts.get(digits, 0) + 1
        key = f"{digits}-{count}"
        answers = self._answers.responses if self._answers else {}
        if key in answers and self.asks is None:
            return ElicitResult.model_validate(answers[key])
        if self.asks is None:
            self.asks = ServerAsks({key: params}, begins_anew=True)
        return ElicitResult(action="cancel")

    def added_to(self, request: Any) -> Any:
        """Return the request of a call in which the answers go along, as from 2026-07-28 on."""
        if self._answers is None:
            return request
        responses = {
            key: ElicitResult.model_validate(each) for key, each in self._answers.responses.items()
        }
        sent = {"input_responses": responses, "request_state": self._answers.state}
        return request.model_copy(update={"params": request.params.model_copy(update=sent)})


def asked_in(raw: dict[str, Any]) -> ServerAsks:
    """Return what a server asks in place of a result."""
    requests, state = raw.get("inputRequests"), raw.get("requestState")
    questions = {
        str(key): each.get("params")
        if isinstance(each, dict) and each.get("method") == _ASKS
        else None
        for key, each in (requests.items() if isinstance(requests, dict) else ())
    }
    return ServerAsks(questions, state if isinstance(state, str) else None)
