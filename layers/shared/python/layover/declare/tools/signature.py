"""A function's signature as a model of its arguments."""

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError, from_json

from layover.declare.context import ToolContext
from layover.declare.schemas import checks
from layover.declare.schemas.json_schema import nullable, strict, takes_null, tidy
from layover.declare.schemas.references import Schema, self_contained
from layover.declare.schemas.render import as_taken, json_text, jsonable
from layover.errors import DefinitionError
from layover.values.base import TOO_DEEP, all_finite, too_deep

NOT_FINITE = "every number has to be finite"
_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class ToolArgs:
    """Validated arguments."""

    kwargs: Mapping[str, Any]
    """Python values by parameter, defaults filled in: the arguments of the function's call."""
    _model: BaseModel | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON, by the names of the schema: events and the journal show this, and whoever
        edits the arguments sends it back."""
        assert self._model is not None
        # Of what is computed from the arguments, nothing: the tool would not take it.
        dumped = self._model.model_dump(
            mode="json", by_alias=True, round_trip=True, fallback=str, warnings=False
        )
        args: dict[str, Any] = jsonable(as_taken(self._model, dumped))
        return args

    def for_predicate(self) -> dict[str, Any]:
        """Return models as dicts, the rest (numbers, dates, enums) as Python values."""
        assert self._model is not None
        dumped = self._model.model_dump(mode="python", fallback=str, warnings=False)
        fields = zip(type(self._model).model_fields, self.kwargs, strict=True)
        return {name: dumped[field] for field, name in fields if field in dumped}


class _ArgumentSchema(GenerateJsonSchema):
    """Leaves out of the schema a default that JSON cannot express. No warning: the tool still has it."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}


@dataclass(frozen=True)
class Signature:
    """The arguments that a tool takes. `context`: the parameter that gets the ToolContext, if there is
    one."""

    names: tuple[str, ...]
    context: str | None
    model: type[BaseModel]

    def validate(self, args: Any) -> ToolArgs:
        """Return arguments from a decoded object, or from the raw text of a model.

        Raises `pydantic.ValidationError`. No text at all stands for no arguments. A list or an object may
        come as the text of its JSON."""
        try:
            return self._read(args)
        except ValidationError as error:
            from layover.declare.schemas.json_in_text import read_texts

            return read_texts(args, self._read, error)

    def _read(self, args: Any) -> ToolArgs:
        """Return the arguments as they are if they fit. Raises ValidationError."""
        text, decoded = self._prepared(args)
        if too_deep(decoded):
            raise self._refusal("too_deep", TOO_DEEP)
        if not all_finite(decoded):
            raise self._refusal("finite_number", NOT_FINITE)
        return self._fitted(text, decoded)

    def _fitted(self, text: str, decoded: Any) -> ToolArgs:
        """Return the arguments if their values fit. Raises ValidationError."""
        instance = self.model.model_validate_json(text)
        values = [getattr(instance, field) for field in self.model.model_fields]
        return ToolArgs(dict(zip(self.names, values, strict=True)), instance)

    def _refusal(self, kind: str, message: str) -> ValidationError:
        problem = InitErrorDetails(type=PydanticCustomError(kind, message), input=None)
        return ValidationError.from_exception_data(self.model.__name__, [problem])

    def _prepared(self, args: Any) -> tuple[str, Any]:
        """Return the arguments as JSON text and decoded; text that is not JSON is decoded to None."""
        if isinstance(args, str):
            text = args.encode("utf-8", "replace").decode().strip() or "{}"
            try:
                args = from_json(text)
            except ValueError:
                return text, None
        if args is None:
            args = {}
        if isinstance(args, dict):
            args = {k: v for k, v in args.items() if v is not None or k not in self._null_means_out}
        return json_text(args), args

    @cached_property
    def schema(self) -> Schema:
        """The plain JSON schema of the arguments."""
        schema = _argument_schema(self.model)
        schema.pop("description", None)
        return {"properties": {}, **tidy(schema)}

    @cached_property
    def strict_schema(self) -> Schema | None:
        """The schema for strict mode, where all arguments are required: one that has a default may be `null`,
        which means the default. None if strict mode cannot express it."""
        properties = {
            name: nullable(s) if name in self._null_means_out else s
            for name, s in self.schema["properties"].items()
        }
        return strict({**self.schema, "properties": properties})

    @cached_property
    def _null_means_out(self) -> frozenset[str]:
        """Return the arguments with a default that do not take null themselves."""
        required = self.schema.get("required", ())
        return frozenset(
            name
            for name, s in self.schema["properties"].items()
            if name not in required and not takes_null(s, self.schema)
        )


def read(fn: Callable[..., Any], tool: str, scope: Mapping[str, Any]) -> Signature:
    """Return the signature of a tool's function. `scope`: the names around it, for hints that are text.
    Raises DefinitionError for a parameter that a model could not be asked for."""
    hints = hints_of(fn, tool, scope)
    context: str | None = None
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        _check(parameter, tool, hints)
        if not is_context(hints[name]):
            fields[name] = (hints[name], _field(parameter))
        elif context is None:
            context = name
        else:
            raise DefinitionError(
                f"tool {tool!r}: both {context!r} and {name!r} are a ToolContext: remove one of them"
            )
    return Signature(tuple(fields), context, _model(tool, fields))


def _check(parameter: inspect.Parameter, tool: str, hints: Mapping[str, Any]) -> None:
    name = parameter.name
    if parameter.kind in _STARS:
        raise DefinitionError(
            f"tool {tool!r}: parameter {str(parameter).partition(':')[0]!r} has no schema: write a parameter "
            "for each argument"
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise DefinitionError(
            f"tool {tool!r}: parameter {name!r} is positional-only: arguments come by name, so remove the '/'"
        )
    if name not in hints:
        raise DefinitionError(
            f"tool {tool!r}: parameter {name!r} has no type hint, of which its schema is made"
        )


def hints_of(fn: Callable[..., Any], tool: str, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type hints of a tool's function. Raises DefinitionError if one cannot be read."""
    inner = inspect.unwrap(fn)
    annotations = {k: v for k, v in inner.__annotations__.items() if k != "return"}
    names = {"ToolContext": ToolContext, **getattr(inner, "__globals__", {})}
    try:
        return typing.get_type_hints(
            SimpleNamespace(__annotations__=annotations),
            globalns=names,
            localns=dict(scope),
            include_extras=True,
        )
    except Exception as error:
        raise DefinitionError(f"tool {tool!r}: a type hint cannot be read: {error}") from error


def is_context(hint: Any) -> bool:
    """Return whether a parameter with this hint gets the ToolContext."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return is_context(typing.get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(is_context(a) for a in typing.get_args(hint) if a is not NoneType)
    plain = hint if origin is None else origin
    return isinstance(plain, type) and issubclass(plain, ToolContext)


def _field(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return ...
    return default if isinstance(default, FieldInfo) else Field(default=default)


def _model(tool: str, fields: Mapping[str, Any]) -> type[BaseModel]:
    """Return the model of the arguments. Fields are numbered and go by their alias: a parameter may be called
    `schema` or `_x`."""
    names = {f"p{i}": name for i, name in enumerate(fields)}
    config = ConfigDict(
        extra="forbid",
        alias_generator=lambda f: names.get(f, f),
        validate_default=False,
        # "1e999" is a float to pydantic: its approver would see null.
        allow_inf_nan=False,
    )
    numbered = dict(zip(names, fields.values(), strict=True))
    try:
        model: type[BaseModel] = create_model(tool, __config__=config, **numbered)
        _argument_schema(model)
    except checks.NO_SCHEMA as error:
        raise DefinitionError(
            f"tool {tool!r}: no schema for its arguments: {checks.no_schema(error)}"
        ) from error
    return model


def _argument_schema(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(schema_generator=_ArgumentSchema)
    return self_contained(schema, f"tool {model.__name__!r}: arguments: ")


def caller_scope(depth: int) -> dict[str, Any]:
    """Return local names `depth` frames up (a tool in a function may name types of that function)."""
    frame = sys._getframe(depth + 1)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
