"""A model's verdict on an answer: whether it holds, and why."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from layover.clock import SystemClock
from layover.ports import ChatModel
from layover.values.json_answer import escape_raw
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import OutputSpec, Prompt

_SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "holds": {"type": "boolean"}},
    "required": ["reason", "holds"],
    "additionalProperties": False,
}
_TRIES = 2


class Judged(BaseModel):
    """The reply of a judge."""

    model_config = ConfigDict(extra="ignore", strict=True)

    reason: str
    holds: bool


async def ask_judge(
    model: ChatModel, name: str, system: str, about: Mapping[str, Any]
) -> Judged | None:
    """Return the verdict of the model of this name on what is sent as JSON; None if no reply has one. Raises
    LayoverError if the model does not reply."""
    text = TextPart(text=json.dumps(about, ensure_ascii=False, default=str))
    now = SystemClock().now()
    message = Message(id="judge", thread_id="", role=Role.USER, content=(text,), created_at=now)
    prompt = Prompt(
        model=name,
        system=system,
        messages=(message,),
        task="judge",
        output=OutputSpec(name="verdict", json_schema=_SCHEMA, strict=True),
    )
    for _ in range(_TRIES):
        judged = _read((await model.complete(prompt)).text)
        if judged is not None:
            return judged
    return None


def _read(text: str) -> Judged | None:
    """Return the verdict in a reply, which some models wrap in words or in a fence."""
    begin, end = text.find("{"), text.rfind("}")
    try:
        return Judged.model_validate_json(escape_raw(text[begin : end + 1]))
    except ValidationError:
        return None
