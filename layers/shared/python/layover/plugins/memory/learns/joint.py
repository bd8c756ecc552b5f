"""One request for several parts of memory (docs/prompts.md#one-request): a turn is sent once, and each part
reads its own list of the answer as if it had asked alone."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from layover.declare.agent import Agent
from layover.errors import ContextLengthExceeded, LayoverError, ModelError
from layover.plugins.memory.learns.requests import Part, ask, joint_prompt
from layover.plugins.memory.learns.text.answers import json_object
from layover.plugins.memory.usage import usage_row
from layover.runtime import Runtime
from layover.values.memory.context import StepUsage
from layover.values.runs.run import RunMeta
from layover.values.text import sanitise

TASK = "lesson"
JOINT_VERSION = "lesson-1"
"""Changes with `prompts/lesson.md`; an entry names it in front of the version of its part's own prompt."""
_REFUSED = (400, 413, 422)
"""Statuses of a request that a model does not take: a smaller one may pass."""

logger = logging.getLogger("layover")


@dataclass(frozen=True)
class PartAnswer:
    """The answer to a part, as to its own request: "" if the model failed. `is_joint`: one request asked for
    other parts, too."""

    text: str
    model: str
    is_joint: bool = False


@dataclass(frozen=True)
class JointAnswers:
    """The answers by the task of each part, and what all requests cost."""

    by_task: dict[str, PartAnswer]
    usage: tuple[StepUsage, ...] = ()
    is_away: bool = False
    """True if a model's provider is away: the same request may succeed later."""


async def ask_for_parts(
    runtime: Runtime, agent: Agent, meta: RunMeta, parts: Sequence[Part]
) -> JointAnswers:
    """Ask for all parts with one request. A part whose list the answer does not have is asked for alone, as
    are all parts if the model does not take the request. If the model fails, so does every part."""
    usage: list[StepUsage] = []
    answers: dict[str, PartAnswer] = {}
    if len(parts) > 1:
        prompt = joint_prompt(parts)
        try:
            reply = await ask(runtime, agent, meta, prompt)
        except LayoverError as error:
            if not _may_pass_in_parts(error):
                _warn(meta, error, *parts)
                failure = PartAnswer("", prompt.model)
                no_answers = {part.task: failure for part in parts}
                return JointAnswers(no_answers, is_away=_passes(error))
        else:
            usage.append(usage_row(runtime, meta, TASK, reply))
            lists = _lists(reply.text, parts)
            model = reply.model or prompt.model
            answers = {t: PartAnswer(text, model, is_joint=True) for t, text in lists.items()}
    is_away = False
    for part in parts:
        if part.task in answers:
            continue
        try:
            reply = await ask(runtime, agent, meta, part.alone)
        except LayoverError as error:
            _warn(meta, error, part)
            answers[part.task] = PartAnswer("", part.alone.model)
            is_away = is_away or _passes(error)
        else:
            usage.append(usage_row(runtime, meta, part.task, reply))
            answers[part.task] = PartAnswer(reply.text, reply.model or part.alone.model)
    return JointAnswers(answers, tuple(usage), is_away)


def _passes(error: LayoverError) -> bool:
    return isinstance(error, ModelError) and error.passes


def _lists(text: str, parts: Sequence[Part]) -> dict[str, str]:
    """Return the answer to each part that a joint answer has a list for, in the form of its own answer."""
    whole = json_object(sanitise(text), *(part.field for part in parts)) or {}
    return {
        part.task: json.dumps({part.list_name: whole[part.field]}, ensure_ascii=False)
        for part in parts
        if isinstance(whole.get(part.field), list)
    }


def _may_pass_in_parts(error: LayoverError) -> bool:
    if isinstance(error, ContextLengthExceeded):
        return True
    return isinstance(error, ModelError) and error.status in _REFUSED


def _warn(meta: RunMeta, error: LayoverError, *parts: Part) -> None:
    for part in parts:
        extra = {"run_id": meta.id, "cause": type(error).__name__}
        logger.warning(f"nothing learned for: {part.field}", extra=extra)
