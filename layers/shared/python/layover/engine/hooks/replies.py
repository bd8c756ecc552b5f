"""Answers of `before_model` that stand in the place of a model's reply (docs/hooks.md#refused)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Any

from layover.context.withheld import with_marks
from layover.declare.agent import Agent
from layover.declare.hooks.base import (
    REFUSED_REPLY,
    Answer,
    HookAnswer,
    ModelRequest,
    Refuse,
    name_of,
)
from layover.declare.schemas.render import as_text, jsonable
from layover.values.message import Message, Role
from layover.values.prompt import Reply
from layover.values.runs.hooked import HookReply
from layover.values.runs.run import FinishReason, StepRecord
from layover.values.runs.usage import Usage
from layover.values.text import sanitise


@dataclass(frozen=True)
class InPlace:
    """A hook's reply in the model's place. `record`: its facts, which the step keeps."""

    text: str
    record: HookReply

    def as_reply(self) -> Reply:
        """Return it as the reply that it stands for. It costs nothing."""
        return Reply(text=self.text, usage=Usage(cost_usd=Decimal(0)))


def reply_of(
    hook: Any, answer: Any, request: ModelRequest, agent: Agent, input_id: str
) -> InPlace | None:
    """Return the reply that a hook's answer is; None if it is a changed request, or None. `input_id`: of the
    run's input. Raises TypeError, and what the agent's output raises for a value that it does not take."""
    if isinstance(answer, Refuse):
        text = answer.reply if answer.reply and answer.reply.strip() else REFUSED_REPLY
        reason = None if answer.reason is None else sanitise(str(answer.reason))
        record = HookReply(
            hook=name_of(hook),
            decision="refuse",
            reason=reason,
            message_ids=_new_ids(request) or (input_id,),
        )
        return InPlace(sanitise(str(text)), record)
    if isinstance(answer, Answer):
        text = as_text(jsonable(answer.value))
        if agent.output is not None:
            agent.parse_output(text)
        return InPlace(sanitise(text), HookReply(hook=name_of(hook), decision="answer"))
    if isinstance(answer, HookAnswer):
        raise TypeError(f"it returned {type(answer).__name__}, which is an answer of before_tool")
    return None


def in_place_of_model(step: StepRecord, record: HookReply) -> StepRecord:
    """Return the step that a hook's reply makes. No model was asked, so that nothing is estimated."""
    ids = record.message_ids
    changes: dict[str, Any] = {"replied": record, "estimated": None, "estimated_tokens": 0}
    if record.refuses:
        notices = tuple(with_marks(step.notices, ids))
        changes |= {
            "finish_reason": FinishReason.REFUSED.value,
            "notices": notices,
            "correction": None,
        }
    return step.model_copy(update=changes)


def unanswered(messages: Sequence[Message], others: Collection[str] = ()) -> tuple[Message, ...]:
    """Return the users' messages of a thread that this agent's model has not answered: those behind its last
    reply, whether that is still in prompts or not. `others`: ids of the replies of agents that had the run
    before this one."""
    newest = _newest(messages, others)
    return tuple(m for m in newest if m.role is Role.USER and not m.refused)


def _new_ids(request: ModelRequest) -> tuple[str, ...]:
    """Return the ids of what is new in a request: the users' messages that no model has answered. If there
    are none, what the tools have returned is."""
    if request.unanswered:
        return tuple(message.id for message in request.unanswered)
    return tuple(m.id for m in _newest(request.messages) if m.role is Role.TOOL)


def _newest(messages: Sequence[Message], others: Collection[str] = ()) -> list[Message]:
    def is_behind(message: Message) -> bool:
        return message.role is not Role.ASSISTANT or message.id in others

    return list(takewhile(is_behind, reversed(messages)))[::-1]
