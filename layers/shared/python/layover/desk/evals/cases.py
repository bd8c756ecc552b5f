"""A file of cases, as it is written (docs/guides/evals.md#cases)."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from layover.values.message import InputPart, Part, TextPart, ToolResultPart
from layover.values.runs.status import FinishReason


class _Written(BaseModel):
    """A part of the file: a key that it does not have is wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _as_texts(value: Any) -> Any:
    """Return one text as a tuple, and a list as one."""
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple) and not value:
        raise ValueError("the list is empty")
    if isinstance(value, tuple) and any(isinstance(v, str) and not v.strip() for v in value):
        raise ValueError("the text is empty")
    return value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_parts(value: Any) -> Any:
    """Return a text as the one part of a message."""
    if isinstance(value, str) and value.strip():
        return (TextPart(text=value),)
    if not value and isinstance(value, str | list):
        raise ValueError("it is empty")
    if not isinstance(value, list | tuple):
        raise ValueError("it must be a text, or a list of parts")
    return tuple(value)


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
Name = Annotated[str, Field(min_length=1)]
Args = dict[str, Any]


class ToolExpectation(_Written):
    """A call that has to be made. `args`: a part of its arguments."""

    name: Name
    args: Args = {}


class ApprovalExpectation(_Written):
    """A call that has to ask for a person, and what is decided."""

    tool: Name
    decide: Literal["approve", "deny"]
    args: Args = {}


class OutputExpectation(_Written):
    """Requirements of the answer. A field that is not set expects nothing."""

    contains: Texts | None = None
    equals: Any = None
    matches: Texts | None = None
    json_schema: dict[str, Any] | bool | None = Field(default=None, alias="schema")

    @field_validator("matches")
    @classmethod
    def _compile(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for pattern in patterns or ():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return patterns

    @field_validator("json_schema")
    @classmethod
    def _is_schema(cls, schema: Any) -> Any:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        if schema is not None:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"it is not a JSON schema: {error.message}") from error
        return schema

    @model_validator(mode="after")
    def _expects(self) -> Self:
        _check_not_empty(self)
        return self


class MaxExpectation(_Written):
    """The most that a run may need. None: as much as it likes."""

    steps: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _expects(self) -> Self:
        _check_not_empty(self)
        return self


def _check_not_empty(model: Any) -> None:
    if not model.model_fields_set:
        names = (field.alias or name for name, field in type(model).model_fields.items())
        raise ValueError(f"name at least one of {', '.join(names)}")


class Expect(_Written):
    """All that has to hold of a case. What is None is not looked at."""

    tools: Annotated[tuple[ToolExpectation, ...], BeforeValidator(_as_tuple)] | None = None
    approvals: Annotated[tuple[ApprovalExpectation, ...], BeforeValidator(_as_tuple)] = ()
    output: OutputExpectation | None = None
    finish_reason: Annotated[FinishReason, Field(strict=False)] | None = None
    judge: Texts = ()
    max: MaxExpectation | None = None


class Stub(_Written):
    """An answer to calls of a tool, which does not run."""

    tool: Name
    args: Args = {}
    result: Any = None
    error: str | None = None

    @model_validator(mode="after")
    def _answers(self) -> Self:
        keys = self.model_fields_set & {"result", "error"}
        if not keys:
            raise ValueError("say what it answers: `result` or `error`")
        if len(keys) > 1:
            raise ValueError("`result` and `error` exclude each other: remove one of them")
        return self


class ScriptedCall(_Written):
    """A call of a scripted step."""

    call: Name
    args: Args = {}


class ScriptStep(_Written):
    """A scripted model's answer: words, a call, several calls with words before them, or an error."""

    say: str | None = None
    call: Name | None = None
    args: Args = {}
    calls: Annotated[tuple[ScriptedCall, ...], BeforeValidator(_as_tuple)] | None = None
    fail: str | None = None
    status: int = Field(default=500, ge=400, le=599)

    @model_validator(mode="after")
    def _does_one_thing(self) -> Self:
        keys = [name for name in ("say", "call", "calls", "fail") if name in self.model_fields_set]
        if not keys:
            raise ValueError("say what the model does: one of say, call, calls, fail")
        if len(keys) > 1 and keys != ["say", "calls"]:
            names = " and ".join(f"`{name}`" for name in keys)
            raise ValueError(f"{names} exclude each other: make two steps of them")
        for option, owner in (("args", "call"), ("status", "fail")):
            if option in self.model_fields_set and owner not in keys:
                raise ValueError(f"`{option}` belongs to a `{owner}`")
        return self


class EarlierMessage(_Written):
    """A message of the thread from before the run."""

    role: Literal["user", "assistant", "tool"]
    content: Annotated[tuple[Part, ...], BeforeValidator(_as_parts)]

    @model_validator(mode="after")
    def _fits_role(self) -> Self:
        is_result = [isinstance(part, ToolResultPart) for part in self.content]
        if self.role == "tool" and is_result != [True]:
            raise ValueError("a tool's message has a part of the type tool_result, and no other")
        return self


class Case(_Written):
    """One input, and what has to hold of the run that answers it."""

    name: Name
    input: Annotated[tuple[InputPart, ...], BeforeValidator(_as_parts)]
    expect: Expect
    history: Annotated[tuple[EarlierMessage, ...], BeforeValidator(_as_tuple)] = ()
    metadata: dict[str, Any] = {}
    stubs: Annotated[tuple[Stub, ...], BeforeValidator(_as_tuple)] = ()
    script: Annotated[tuple[ScriptStep, ...], BeforeValidator(_as_tuple)] | None = None

    @field_validator("script")
    @classmethod
    def _has_steps(
        cls, script: tuple[ScriptStep, ...] | None, info: ValidationInfo
    ) -> tuple[ScriptStep, ...] | None:
        expect = info.data.get("expect")
        asks_none = expect is not None and expect.finish_reason is FinishReason.REFUSED
        if script is not None and not script and not asks_none:
            raise ValueError("the list is empty: write what the model answers")
        return script


class CaseFile(_Written):
    """The whole file. `agent`: the agent's name, if the command names none."""

    cases: Annotated[tuple[Case, ...], BeforeValidator(_as_tuple)]
    agent: Name | None = None

    @field_validator("cases")
    @classmethod
    def _is_not_empty(cls, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        if not cases:
            raise ValueError("cases must have at least one case")
        return cases
