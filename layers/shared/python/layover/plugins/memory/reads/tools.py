"""The tools that memory gives a model (docs/behaviour.md#working-memory, docs/behaviour.md#plans)."""

import inspect
import json
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from layover.declare.agent import Agent
from layover.declare.schemas.render import jsonable
from layover.declare.tools.tool import AnyTool, tool
from layover.errors import NotFound
from layover.plugins.memory.reads.episodic.search import recall_memory_tool
from layover.plugins.memory.reads.profile.notes import merged_notes, working_key
from layover.plugins.memory.reads.profile.plan import MAX_STEPS, Plan, PlanStep
from layover.ports import Clock, Embedder, MemoryStore
from layover.values.note import Note
from layover.values.runs.run import RunMeta

MAX_WORKING_MEMORY = 20_000
"""The most characters of working memory, which every prompt contains."""
_MAX_MERGES = 20
"""Writers that may come between before a merge gives up."""
_MAX_DEPTH = 3
"""Levels below the fields of a schema of which one may be forgotten: models may contain themselves."""
_DONE = {"success": True}
_NOTHING_DONE = {
    "success": False,
    "reason": "No field was given, so nothing was changed. Null leaves a field as it is.",
}


class WorkingMemoryChanged(Exception):
    """Another run has written since the model last read. The model has to see the new text first."""


def built_in_tools(
    agent: Agent,
    memory: MemoryStore,
    meta: RunMeta,
    clock: Clock,
    prompt_note: Note | None = None,
    embedder: Embedder | None = None,
) -> list[AnyTool]:
    """Return the tools of `agent.memory`; empty if it has no part that adds one. `prompt_note`: the working
    memory that the run's prompt shows (`PromptSnapshot.notes`), None if it shows none; a text that another
    run wrote after that is not overwritten unseen. `embedder`: that of episodic memory; without it, entries
    are found by words."""
    tools: list[AnyTool] = []
    working_memory = agent.memory.working_memory
    key = working_key(agent, meta.thread_id)
    if working_memory is not None and key is not None:
        notes = _Notes(memory, meta, clock, prompt_note or Note(key=key))
        tools.append(
            _text_tool(notes)
            if working_memory.schema is None
            else _fields_tool(notes, working_memory.schema)
        )
    if agent.memory.plan:
        tools.append(_plan_tool(memory, meta, clock))
    if agent.memory.episodic is not None:
        tools.append(recall_memory_tool(agent.memory.episodic, memory, meta, clock, embedder))
    return tools


class _Notes:
    """The working memory as one run uses it."""

    def __init__(self, memory: MemoryStore, meta: RunMeta, clock: Clock, prompt_note: Note) -> None:
        self._memory = memory
        self._meta = meta
        self._clock = clock
        self._key = prompt_note.key
        self._known_note = prompt_note
        """Texts that the model knows: from its prompt, or from a refusal."""

    async def replace(self, text: str) -> None:
        """Write a text over the one that the model knows. Raises WorkingMemoryChanged, ValueError."""
        _check_size(text)
        present = await self._read()
        if self._is_unseen(present):
            raise self._conflict(present)
        write = await self._memory.replace_note(
            self._meta.owner,
            self._key,
            text,
            self._clock.now(),
            self._meta.id,
            expected_version=present.version,
        )
        if not write.stored and write.note.version:
            raise self._conflict(write.note)
        self._require_thread(write.stored)

    async def merge(self, change: dict[str, Any], forget: Sequence[str], schema: Any) -> bool:
        """Merge a change into the fields and take the named ones away; other writers' fields stay. Return
        False if there is nothing to change. Raises ValueError, WorkingMemoryChanged."""
        if not change and not forget:
            return False
        note = await self._read()
        for _ in range(_MAX_MERGES):
            value = merged_notes(note.value, change, forget)
            _check_fields(schema, value)
            if value == note.value:
                return True
            write = await self._memory.replace_note(
                self._meta.owner,
                self._key,
                value,
                self._clock.now(),
                self._meta.id,
                expected_version=note.version,
            )
            if write.stored:
                return True
            self._require_thread(bool(note.version or write.note.version))
            note = write.note
        raise WorkingMemoryChanged(
            "others change it all the time, and nothing was stored; try again"
        )

    async def _read(self) -> Note:
        return (await self._memory.read_notes(self._meta.owner, [self._key]))[0]

    def _is_unseen(self, note: Note) -> bool:
        """Return whether another writer stored this, and neither prompt nor refusal showed it to the
        model."""
        if note.version == 0 or note.run_id == self._meta.id:
            return False
        return not note.same_as(self._known_note)

    def _conflict(self, present: Note) -> WorkingMemoryChanged:
        self._known_note = present
        return WorkingMemoryChanged(
            "it was changed meanwhile and nothing was stored. It now says:\n"
            f"{_as_text(present.value)}\nCall update_working_memory again with the whole text to keep."
        )

    def _require_thread(self, is_stored: bool) -> None:
        if not is_stored:
            raise NotFound("the thread is gone", thread_id=self._meta.thread_id)


def _text_tool(notes: _Notes) -> AnyTool:
    @tool(idempotent=True)
    async def update_working_memory(
        memory: Annotated[str, Field(description="The whole text; it replaces the old one.")],
    ) -> dict[str, bool]:
        """Replace your working memory: what is worth knowing in later turns. Write the whole text,
        with what is to be kept of the old one."""
        await notes.replace(memory)
        return _DONE

    return update_working_memory


def _fields_tool(notes: _Notes, schema: Any) -> AnyTool:
    """Return a tool whose arguments are the schema's fields, each optional: null leaves a field as it is,
    also within a field, since strict mode makes models write one for what they do not touch."""
    forget = "forget"
    while forget in schema.model_fields:
        forget += "_"

    async def update_working_memory(**fields: Any) -> dict[str, Any]:
        paths = fields.pop(forget, None) or []
        change = {name: _change(v) for name, v in fields.items() if v is not None}
        return _DONE if await notes.merge(change, paths, schema) else _NOTHING_DONE

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=Field(default_factory=lambda: None, description=field.description),
            annotation=_hint(field),
        )
        for name, field in schema.model_fields.items()
    ]
    if removable := _removable_fields(schema):
        parameters.append(
            inspect.Parameter(
                forget,
                inspect.Parameter.KEYWORD_ONLY,
                default=Field(default_factory=list, description="Fields to take away."),
                annotation=list[Literal[*removable]],  # type: ignore[valid-type]
            )
        )
    function: Any = update_working_memory
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    what = (
        "Update your working memory: give the fields that changed, the others stay as they are. Null leaves a"
        f" field as it is; name in `{forget}` what is no longer true or is to be forgotten."
    )
    return tool(idempotent=True, description=what)(function)


def _change(value: Any) -> Any:
    """Return an argument as a change: of a model only the fields that were given."""
    if not isinstance(value, BaseModel):
        return jsonable(value)
    parts = [
        (n, getattr(value, n)) for n in type(value).model_fields if n in value.model_fields_set
    ]
    return {name: _change(v) for name, v in parts if v is not None}


def _removable_fields(schema: Any, depth: int = 0) -> tuple[str, ...]:
    """Return the paths of the fields that may be missing: every one of the schema itself, and those within
    that have a default or may be null."""
    paths: list[str] = []
    for name, field in schema.model_fields.items():
        if not depth or not field.is_required() or NoneType in _choices(field.annotation):
            paths.append(name)
        if depth < _MAX_DEPTH:
            inner = (m for m in _choices(field.annotation) if _is_model(m))
            paths += [f"{name}.{path}" for m in inner for path in _removable_fields(m, depth + 1)]
    return tuple(dict.fromkeys(paths))


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself."""
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _is_model(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def _hint(field: FieldInfo) -> Any:
    """Return the field's type with its constraints."""
    if not field.metadata:
        return field.annotation
    return Annotated[(field.annotation, *field.metadata)]


def _check_fields(schema: Any, value: dict[str, Any]) -> None:
    """Check that the whole fits the schema, except fields without a value. Raises ValueError."""
    _check_size(value)
    try:
        schema.model_validate(value, by_name=True)
    except ValidationError as error:
        # What has to be given within a field is checked where the tool is called.
        wrong = [e for e in error.errors() if e["type"] != "missing"]
        if wrong:
            lines = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in wrong)
            raise ValueError("; ".join(lines)) from error


def _plan_tool(memory: MemoryStore, meta: RunMeta, clock: Clock) -> AnyTool:
    @tool(idempotent=True)
    async def plan(
        goal: Annotated[str, Field(description="What is to be reached.", max_length=2_000)],
        phase: Annotated[str, Field(description="What is going on now.", max_length=500)] = "",
        iterations: Annotated[int, Field(description="Rounds so far.", ge=0)] = 0,
        steps: Annotated[list[PlanStep], Field(max_length=MAX_STEPS)] = [],  # noqa: B006
    ) -> dict[str, bool]:
        """Write or update the plan of this conversation: give the whole plan, each step with its status."""
        content = Plan(goal=goal, phase=phase, iterations=iterations, steps=steps)
        value = content.model_dump(mode="json")
        if not await memory.write_plan(meta.owner, meta.thread_id, value, clock.now()):
            raise NotFound("the thread is gone", thread_id=meta.thread_id)
        return _DONE

    return plan


def _check_size(value: Any) -> None:
    if len(_as_text(value)) > MAX_WORKING_MEMORY:
        raise ValueError(f"working memory holds {MAX_WORKING_MEMORY} characters, shorten it")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
