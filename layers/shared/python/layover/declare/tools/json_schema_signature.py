"""The signature of a tool whose arguments are described by a JSON schema instead of type hints."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from layover.declare.schemas import checks
from layover.declare.schemas.json_schema import is_object, strict
from layover.declare.schemas.references import Schema, self_contained
from layover.declare.schemas.render import jsonable
from layover.declare.tools.signature import Signature, ToolArgs, hints_of, is_context
from layover.errors import DefinitionError
from layover.values.base import TOO_DEEP, too_deep

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MAX_PROBLEMS = 5
MAX_CHECKS = 100_000
"""Keywords of a schema that one validation may look at: some of 1 KB would take years."""
_TOO_MANY = "these arguments take too long to check against the tool's schema"


@dataclass(frozen=True)
class JsonSchemaArgs(ToolArgs):
    """Arguments as the model wrote them. They fit the schema."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return them as JSON."""
        args: dict[str, Any] = jsonable(self.values)
        return args

    def for_predicate(self) -> dict[str, Any]:
        """Return them as they are."""
        return dict(self.values)


@dataclass(frozen=True)
class JsonSchemaSignature(Signature):
    """`json_schema`: the author's schema, which arguments have to fit; `model_schema`: the same with all that
    it refers to in `$defs`, as providers take it. `whole`: the handler's parameter that takes all arguments
    as a dict; None: each has its own."""

    json_schema: Schema = field(default_factory=dict)
    model_schema: Schema = field(default_factory=dict)
    whole: str | None = None

    def _fitted(self, text: str, decoded: Any) -> ToolArgs:
        bound = self._bound
        bound.left = MAX_CHECKS
        try:
            errors = sorted(self._validator.iter_errors(decoded), key=lambda e: e.json_path)
        except (_TooManyChecks, RecursionError):
            raise self._refusal("too_many_checks", _TOO_MANY) from None
        problems = [
            InitErrorDetails(
                type=PydanticCustomError("json_schema", "{told}", {"told": error.message}),
                loc=tuple(error.absolute_path),
                input=None,
            )
            for error in errors
        ]
        if problems:
            raise ValidationError.from_exception_data(self.model.__name__, problems[:_MAX_PROBLEMS])
        kwargs = dict(decoded) if self.whole is None else {self.whole: decoded}
        return JsonSchemaArgs(kwargs, None, decoded)

    @cached_property
    def schema(self) -> Schema:
        """The schema as it was given, unless it has references that not every provider takes."""
        return {"properties": {}, **self.model_schema}

    @cached_property
    def strict_schema(self) -> Schema | None:
        """The schema if strict mode takes it as it is. Required fields, and those that may be null, are the
        author's decision."""
        schema = strict(self.schema)
        return schema if schema == self.schema else None

    @cached_property
    def _null_means_out(self) -> frozenset[str]:
        return frozenset()

    @cached_property
    def _validator(self) -> "Validator":
        from referencing import Registry

        # A registry of its own: nothing is ever fetched.
        registry: Any = Registry()
        validator = self._bound.of(_validator_of(self.json_schema))
        return validator(self.json_schema, registry=registry)

    @cached_property
    def _bound(self) -> "_Bound":
        return _Bound()


class _TooManyChecks(Exception):
    """A validation came to its bound."""


class _Bound:
    """Counts the keywords that a validation looks at."""

    def __init__(self) -> None:
        self.left = 0

    def of(self, validator: "type[Validator]") -> "type[Validator]":
        """Return the class of validators, held to this bound."""
        from jsonschema import validators

        extend: Any = validators.extend  # which has no types
        counted = {word: self._counted(check) for word, check in validator.VALIDATORS.items()}
        bounded: type[Validator] = extend(validator, counted)
        return bounded

    def _counted(self, check: Callable[..., Any]) -> Callable[..., Any]:
        def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise _TooManyChecks
            return check(validator, value, instance, schema)

        return run


def json_schema_signature(
    handler: Callable[..., Any], tool: str, json_schema: Any
) -> JsonSchemaSignature:
    """Return the signature of a handler for a schema. A handler with `**kwargs`, or with a parameter for each
    property, gets the arguments by name; one with a single other parameter gets them as a dict. Raises
    DefinitionError."""
    what = f"tool {tool!r}: "
    # Loaded where a tool has such a schema.
    from layover.declare.schemas.provider_schema import in_a_draft, provider_schema

    own_schema = in_a_draft(_as_json(json_schema, what), lambda s: _check_schema(s, s, what))
    whole_schema = self_contained(own_schema, f"{what}schema: ")
    if whole_schema is not own_schema:
        _check_schema(whole_schema, own_schema, what)
    model_schema = provider_schema(whole_schema)
    if not is_object(model_schema):
        raise checks.fail(f"{what}schema", "the JSON schema of an object", json_schema)
    parameters = inspect.signature(handler).parameters
    hints = hints_of(handler, tool, {})
    context = next((n for n in parameters if n in hints and is_context(hints[n])), None)
    own = {n: p for n, p in parameters.items() if n != context}
    property_names = set(model_schema.get("properties", {}))
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in own.values())
    whole = None if takes_all or set(own) >= property_names else next(iter(own), None)
    if whole is not None and len(own) != 1:
        raise checks.fail(
            f"{what}the parameters of the handler",
            f"**kwargs, one for each property ({', '.join(sorted(property_names))}), or one dict",
            list(own),
        )
    return JsonSchemaSignature(
        tuple(own),
        context,
        BaseModel,
        json_schema=own_schema,
        model_schema=model_schema,
        whole=whole,
    )


def _as_json(json_schema: Any, what: str) -> Schema:
    """Return a copy, which no later change of the author's objects reaches."""
    if not isinstance(json_schema, Mapping):
        raise DefinitionError(f"{what}schema has to be the JSON schema of an object")
    if too_deep(dict(json_schema)):
        raise DefinitionError(f"{what}schema: {TOO_DEEP}")
    try:
        schema: Schema = json.loads(json.dumps(dict(json_schema), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{what}schema is not JSON: {error}") from error
    return schema


def _validator_of(schema: Schema) -> "type[Validator]":
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    validator: type[Validator] = validator_for(schema, default=Draft202012Validator)
    return validator


def _check_schema(schema: Schema, draft_of: Schema, what: str) -> None:
    """Raise DefinitionError if the schema is not one in the draft that the given schema names."""
    from jsonschema.exceptions import SchemaError

    try:
        _validator_of(draft_of).check_schema(schema)
    except SchemaError as error:
        raise DefinitionError(f"{what}schema is not a JSON schema: {error.message}") from error
