"""The signature of a tool whose arguments are described by a JSON schema instead of type hints."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from layover.declare.schemas import checks
from layover.declare.schemas.json_schema import Schema, is_object, strict
from layover.declare.tools.signature import Signature, ToolArgs, hints_of, is_context
from layover.errors import DefinitionError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MAX_PROBLEMS = 5


@dataclass(frozen=True)
class JsonSchemaArgs(ToolArgs):
    """Arguments as the model wrote them. They fit the schema."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def _by_name(self, mode: str) -> dict[str, Any]:
        return dict(self.values)


@dataclass(frozen=True)
class JsonSchemaSignature(Signature):
    """`whole`: the handler's parameter that takes all arguments as a dict; None: each has its own."""

    json_schema: Schema = field(default_factory=dict)
    whole: str | None = None

    def _fitted(self, text: str, decoded: Any) -> ToolArgs:
        problems = [
            InitErrorDetails(
                type=PydanticCustomError("json_schema", "{told}", {"told": error.message}),
                loc=tuple(error.absolute_path),
                input=None,
            )
            for error in sorted(self._validator.iter_errors(decoded), key=lambda e: e.json_path)
        ]
        if problems:
            raise ValidationError.from_exception_data(self.model.__name__, problems[:_MAX_PROBLEMS])
        kwargs = dict(decoded) if self.whole is None else {self.whole: decoded}
        return JsonSchemaArgs(kwargs, None, decoded)

    @cached_property
    def schema(self) -> Schema:
        """The schema as given."""
        return {"properties": {}, **self.json_schema}

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
        from jsonschema.validators import validator_for

        return validator_for(self.json_schema)(self.json_schema)


def json_schema_signature(
    handler: Callable[..., Any], tool: str, json_schema: Any
) -> JsonSchemaSignature:
    """Return the signature of a handler for a schema. A handler with `**kwargs`, or with a parameter for each
    property, gets the arguments by name; one with a single other parameter gets them as a dict. Raises
    DefinitionError."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    what = f"tool {tool!r}: "
    if not isinstance(json_schema, Mapping) or not is_object(dict(json_schema)):
        raise checks.fail(f"{what}schema", "the JSON schema of an object", json_schema)
    try:
        validator_for(json_schema).check_schema(dict(json_schema))
    except SchemaError as error:
        raise DefinitionError(f"{what}schema is not a JSON schema: {error.message}") from error
    parameters = inspect.signature(handler).parameters
    hints = hints_of(handler, tool, {})
    context = next((n for n in parameters if n in hints and is_context(hints[n])), None)
    own = {n: p for n, p in parameters.items() if n != context}
    property_names = set(json_schema.get("properties", {}))
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in own.values())
    whole = None if takes_all or set(own) >= property_names else next(iter(own), None)
    if whole is not None and len(own) != 1:
        raise checks.fail(
            f"{what}the parameters of the handler",
            f"**kwargs, one for each property ({', '.join(sorted(property_names))}), or one dict",
            list(own),
        )
    return JsonSchemaSignature(tuple(own), context, BaseModel, dict(json_schema), whole)
