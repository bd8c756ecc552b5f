"""The structured output of an agent: the schema that a model is asked for, and its reply as a value."""

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model

from layover.declare.schemas import checks, references
from layover.declare.schemas import json_schema as schema
from layover.declare.schemas.references import Schema
from layover.declare.schemas.render import json_text
from layover.errors import DefinitionError
from layover.values.json_answer import json_beginning, json_candidates, read_json
from layover.values.prompt import OutputSpec

WRAPPED = "value"
"""Providers take only objects: a list or a union is the one property of an object."""


class OutputType:
    """The type given as `Agent(output=...)`. Raises DefinitionError if no model could be asked for it."""

    def __init__(self, what: str, value: Any) -> None:
        self._value = value
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(value)
            self._schema = _schema_of(self._adapter, what)
            self._wrapper = self._wrapped()
        except checks.NO_SCHEMA as error:
            message = f"{what}output has no schema: {checks.no_schema(error)}"
            raise DefinitionError(message) from error
        if self._wrapper is not None and not _is_list_or_union(self._schema):
            expected = "a type that is an object, a list or a union"
            raise checks.fail(f"{what}output", expected, value)

    @property
    def spec(self) -> OutputSpec:
        """The output that a prompt asks the model for."""
        json_schema = self._schema if self._wrapper is None else _schema_of(self._wrapper, "")
        strict = schema.strict(json_schema)
        name = getattr(self._value, "__name__", "output") if self._wrapper is None else "output"
        schema_name = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "output"
        return OutputSpec(
            name=schema_name, json_schema=strict or json_schema, strict=strict is not None
        )

    def parse(self, text: str) -> Any:
        """Return the reply as an instance. A list or a union may come bare, and the JSON in a fence or among
        words. Raises `pydantic.ValidationError`: of the first part that is JSON, else of the whole."""
        problem: ValidationError | None = None
        for candidate in json_candidates(text):
            try:
                return self._parse_json(candidate)
            except ValidationError as error:
                is_better = problem is None or _is_not_json(problem)
                problem = error if is_better else problem
        assert problem is not None
        raise problem

    def _parse_json(self, text: str) -> Any:
        if self._wrapper is None:
            return _fitted(self._adapter, text)
        try:
            return getattr(_fitted(self._wrapper, text), WRAPPED)
        except ValidationError:
            try:
                return _fitted(self._adapter, text)
            except ValidationError:
                pass
            raise

    def partial(self, text: str) -> Any:
        """Return the beginning of a reply as JSON, not validated; None if there is no value yet."""
        try:
            value = read_json(json_beginning(text), "trailing-strings")
        except ValueError:
            return None
        if self._wrapper is None or not isinstance(value, dict):
            return value
        # Bare, an object of a union has its own properties.
        return value.get(WRAPPED, value or None)

    def _wrapped(self) -> TypeAdapter[Any] | None:
        if schema.is_object(self._schema):
            return None
        fields: dict[str, Any] = {WRAPPED: (self._value, ...)}
        return TypeAdapter(create_model("Output", **fields))


def _fitted(adapter: TypeAdapter[Any], text: str) -> Any:
    def check(value: Any) -> Any:
        return adapter.validate_json(value if isinstance(value, str) else json_text(value))

    try:
        return check(text)
    except ValidationError as error:
        from layover.declare.schemas.json_in_text import read_texts

        return read_texts(text, check, error)


def _is_not_json(error: ValidationError) -> bool:
    return any(problem["type"] == "json_invalid" for problem in error.errors(include_url=False))


def _schema_of(adapter: TypeAdapter[Any], what: str) -> Schema:
    whole = references.self_contained(adapter.json_schema(), f"{what}output: ")
    return schema.rooted(schema.tidy(whole))


def _is_list_or_union(root: Schema) -> bool:
    return root.get("type") == "array" or "anyOf" in root or "oneOf" in root
