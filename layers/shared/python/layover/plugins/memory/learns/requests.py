"""Requests of memory to models: the prompt, the limit and the schema of every task's answer, and the one
way in which they are sent (docs/behaviour.md#memory-requests)."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from layover.context.hooked import ask_model
from layover.context.literal import literal_settings, room_to_think
from layover.context.tokens import estimate
from layover.declare.agent import Agent
from layover.errors import ContextLengthExceeded, ModelError
from layover.plugins.memory.learns.text.forms import bare
from layover.plugins.memory.prompts import prompt_file
from layover.runtime import Runtime
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import OutputSpec, Prompt, Reply
from layover.values.runs.run import RunMeta

KINDS = ("symptom", "cause", "environment", "attempt", "outcome", "open")
"""Kinds of entries that are kept."""
DROPPED = ("advice", "general", "task", "other")
"""Kinds of what is not kept: it is nobody's fact, or of this moment only."""
REQUESTED = "requested"
"""The kind of what only the author's own instructions ask for."""
SMALLER_LIMITS = (4_000, 1_000)
"""Limits to try if a model refuses the task's: some write less at most, some have a small window."""
_LIMIT_REFUSED = re.compile(
    r"max(?:imum)?[_ ]?(?:number of )?(?:new|output|completion)?[_ ]?tokens|maxtokens"
    r"|(?:output|completion) tokens",
    re.IGNORECASE,
)

_WISHES = f"Keep what the following asks for as well; the `kind` of what only it asks for is `{REQUESTED}`."
_STATEMENT = re.compile(r'(?:Of|says) "([^"]+)"')
"""The words of a user in the example of a prompt."""
_EXAMPLE = re.compile(r"^\{.*\}", re.MULTILINE | re.DOTALL)
_NOTHING = re.compile(
    r'(?:\n- Nothing new:| Most turns teach nothing:) \{"\w+": \[\]\}\.(?: That is the usual answer\.)?'
)
"""The words of a prompt about an answer without anything, which has another form in a lesson."""
_QUOTE = re.compile(r'"evidence": "([^"]+)"')

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Schema = {"type": ["integer", "null"]}
_NUMBERS: Schema = {"type": "array", "items": {"type": "integer"}}

logger = logging.getLogger("layover")


def _one_of(*names: str) -> Schema:
    return {"type": "string", "enum": list(names)}


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(**fields: Schema) -> Schema:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Task:
    """A task of memory. `tokens`: of its answer; `most`: of one that grows with what is read. `schema`: of an
    answer in JSON; None: it is text in lines."""

    tokens: int
    most: int | None = None
    schema: Schema | None = None


def _entries(*kinds: str, names_known: bool = False) -> Schema:
    # A model that has to quote first does not quote in other words what it has just written.
    fields = {"evidence": _TEXT, "kind": _one_of(*kinds), "content": _TEXT}
    if names_known:
        fields |= {"replaces": _NUMBERS, "same": _NUMBERS}
    return _object(entries=_list_of(_object(**fields)))


_MARKER = _one_of("CRITICAL", "IMPORTANT", "INFO", "COMPLETION")
_FIELD = _one_of("objective", "state", "decisions", "follow_ups")
_FACT = _object(evidence=_TEXT, key=_TEXT, content=_TEXT_OR_NULL)
_SESSION_FACT = _object(
    evidence=_TEXT, field=_FIELD, content=_TEXT_OR_NULL, replaces=_NUMBER_OR_NULL
)
_MERGE = _object(ids=_NUMBERS, marker=_MARKER, text=_TEXT, parent_id=_NUMBER_OR_NULL)

TASKS = {
    "title": Task(200),
    "extractor": Task(2_000, schema=_entries(*KINDS, *DROPPED)),
    "profile": Task(1_500, schema=_object(facts=_list_of(_FACT))),
    "session": Task(1_500, schema=_object(facts=_list_of(_SESSION_FACT))),
    "lesson": Task(0),
    "observer": Task(2_000, most=8_000),
    "reflector": Task(2_000, most=8_000, schema=_object(drop=_NUMBERS, merge=_list_of(_MERGE))),
    "summary": Task(3_000),
}
"""Every task of memory, by the name that its requests carry (`X-Layover-Task`). A lesson has the tokens and
the lists of its parts."""


@dataclass(frozen=True)
class Part:
    """A part of memory with what it asks of a turn. `field`: the name of its list in the answer to a request
    for several parts; `alone`: the request for it alone, whose answer has that list as `list_name`;
    `payload`: what that request shows, of which `turn` and equal fields are sent once."""

    task: str
    field: str
    alone: Prompt
    payload: Mapping[str, Any]

    @property
    def list_name(self) -> str:
        """The name of the list in the part's own answer."""
        return next(iter(_properties_of(self.alone)))

    @property
    def list_schema(self) -> Schema:
        """The schema of the list."""
        return next(iter(_properties_of(self.alone).values()))


def _properties_of(prompt: Prompt) -> Schema:
    assert prompt.output is not None
    properties: Schema = prompt.output.json_schema["properties"]
    return properties


def joint_prompt(parts: Sequence[Part]) -> Prompt:
    """Return one request for these parts: their rules and examples below a common prompt, all that they show
    in one message, and room for all their answers. Of what several show under one name, the first holds."""
    first = parts[0].alone
    spare = room_to_think(first.model)
    tokens = sum((part.alone.settings.max_tokens or 0) - spare for part in parts)
    payload = {name: value for part in reversed(parts) for name, value in part.payload.items()}
    turn = payload.pop("turn")  # The newest words come last, as in the requests for one part.
    text = TextPart(text=json.dumps({**payload, "turn": turn}, ensure_ascii=False))
    message = first.messages[0].with_content((text,), role=Role.USER)
    schema = _object(**{part.field: part.list_schema for part in parts})
    return Prompt(
        model=first.model,
        system=_joint_system(parts),
        messages=(message,),
        task="lesson",
        stops_repeating=True,
        output=OutputSpec(name="lesson", json_schema=schema, strict=True),
        settings=literal_settings(first.model, tokens),
    )


def _joint_system(parts: Sequence[Part]) -> str:
    """Return the prompt of several parts, made of the prompts of each."""
    statements: list[str] = []
    answer: dict[str, Any] = {}
    sections: list[str] = []
    for part in parts:
        system = part.alone.system or ""
        head, _, rules = system.partition("\n- ")
        statement = _STATEMENT.search(head)
        example = _EXAMPLE.search(head)
        assert statement is not None
        assert example is not None
        statements.append(" ".join(statement[1].split()))
        answer[part.field] = json.loads(example[0])[part.list_name]
        purpose = head.partition("\n")[0]
        bare_rules = _NOTHING.sub("", f"- {rules}").strip()
        sections.append(f"## `{part.field}`\n\n{purpose}\n\n{bare_rules}")
    example_answer = json.dumps(answer, ensure_ascii=False)
    turn = ". ".join(statements)
    example_text = (
        f'Of a turn in which a user says "{turn}", this would be the answer:\n{example_answer}'
    )
    return "\n\n".join([prompt_file("lesson").strip(), example_text, *sections]) + "\n"


def memory_prompt(
    task: str,
    model: str,
    message: Message,
    *,
    instructions: str | None = None,
    least: int = 0,
    names_known: bool = False,
) -> Prompt:
    """Return the request of a task: its prompt file as `system`, and one user message. `instructions`: the
    author's for entries, which follow the file; `least`: tokens that its answer may have in any case;
    `names_known`: entries may name known ones by number (there are none: the fields would cost tokens)."""
    of_task = TASKS[task]
    tokens, schema = max(of_task.tokens, least), of_task.schema
    if of_task.most is not None:
        tokens = max(tokens, min(of_task.most, estimate(message.text)))
    system = prompt_file(task)
    if names_known:
        system = f"{system.rstrip()}\n\n{prompt_file('extractor_known')}"
    if instructions:
        system = f"{system.rstrip()}\n\n{_WISHES}\n\n{instructions.strip()}\n"
    if task == "extractor" and (instructions or names_known):
        kinds = (*KINDS, REQUESTED) if instructions else KINDS
        schema = _entries(*kinds, *DROPPED, names_known=names_known)
    output = None if schema is None else OutputSpec(name=task, json_schema=schema, strict=True)
    return Prompt(
        model=model,
        system=system,
        messages=(message,),
        task=task,
        stops_repeating=True,
        output=output,
        settings=literal_settings(model, tokens),
    )


def text_prompt(task: str, model: str, text: str, at: datetime) -> Prompt:
    """Return the request of a task that reads a text, as of this time."""
    content = (TextPart(text=text),)
    message = Message(id=task, thread_id="", role=Role.USER, content=content, created_at=at)
    return memory_prompt(task, model, message)


def memory_model(runtime: Runtime, agent: Agent, chosen: str | None) -> str:
    """Return the model that a task of memory asks for this agent. `chosen`: the deployment's for such tasks.
    Without it, an agent whose author has brought its model asks that one: what was said to it goes nowhere
    else (docs/behaviour.md#own-models)."""
    own = agent.model if agent.model in agent.own_models else None
    return chosen or own or runtime.settings.model


async def ask(runtime: Runtime, agent: Agent, meta: RunMeta, prompt: Prompt) -> Reply:
    """Return the model's reply to a request that `memory_prompt` made, for a run of this agent. Of lines that
    the limit cut, the whole ones. Raises LayoverError: the model's, or RunFailed if a hook fails."""
    limits = [n for n in SMALLER_LIMITS if n < (prompt.settings.max_tokens or 0)]
    while True:
        try:
            reply = await ask_model(runtime, agent, meta, prompt)
        except ModelError as error:
            if not limits or not _is_limit_refused(error):
                raise
            settings = prompt.settings.model_copy(update={"max_tokens": limits.pop(0)})
            prompt = prompt.model_copy(update={"settings": settings})
        else:
            return _whole(reply, prompt, meta)


def _is_limit_refused(error: ModelError) -> bool:
    """Return whether an answer of fewer tokens may be taken. A window has to hold the answer, too."""
    if isinstance(error, ContextLengthExceeded):
        return True
    return error.status in (400, 422) and _LIMIT_REFUSED.search(error.message) is not None


def is_cut(reply: Reply) -> bool:
    """Return whether the limit cut the answer: another attempt would end at it as well."""
    return reply.finish_reason == "length"


def _whole(reply: Reply, prompt: Prompt, meta: RunMeta) -> Reply:
    if not is_cut(reply):
        return reply
    extra = {"run_id": meta.id, "task": prompt.task, "limit": prompt.settings.max_tokens}
    logger.warning("an answer for memory was cut at its limit", extra=extra)
    if prompt.output is not None or "\n" not in reply.text:
        return reply
    return reply.model_copy(update={"text": reply.text.rpartition("\n")[0]})


def is_example(task: str, evidence: str) -> bool:
    """Return whether evidence is quoted from an example in a task's prompt, and not from what was said. A
    small piece of one is not: a figure that stands in it may be anybody's answer."""
    quote = bare(evidence)
    return any(
        each in quote or (quote in each and 2 * len(quote) >= len(each)) for each in _examples(task)
    )


@cache
def _examples(task: str) -> list[str]:
    return [bare(quote) for quote in _QUOTE.findall(prompt_file(task))]
