"""Corrections of the framework's OpenAPI document, in place.

A field with a default may be absent from a request and is always present in an answer. A generated client
would treat both wrongly, so no schema has defaults."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from layover.values.base import Value

Json = dict[str, Any]

_ID: Json = {"minLength": 1, "pattern": "^[^/]+$"}


def correct(spec: Json) -> None:
    """Correct parameters, bodies and schemas. Problems are added later, and need no correction."""
    schemas = spec["components"]["schemas"]
    requests, absent = set[str](), _fields_that_may_be_absent()
    for operation in _operations(spec):
        _correct_request(operation)
        requests |= _reachable(operation.get("requestBody"), schemas)
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        present = (
            _discriminators(properties) if name in requests else properties.keys() - absent[name]
        )
        required_names = [p for p in properties if p in {*schema.get("required", ()), *present}]
        if required_names:
            schema["required"] = required_names
        for each in properties.values():
            each.pop("default", None)


def _operations(spec: Json) -> Iterator[Json]:
    for item in spec["paths"].values():
        yield from item.values()


def _correct_request(operation: Json) -> None:
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"] = _without_null(parameter["schema"])
        schema.pop("default", None)
        # A call's id comes from the provider and may have slashes.
        if parameter["in"] == "path" and parameter["name"] != "tool_call_id":
            schema.update(_ID)
    for media in operation.get("requestBody", {}).get("content", {}).values():
        media["schema"] = _without_null(media["schema"])


def _without_null(schema: Json) -> Json:
    """Return the schema of a parameter or a body that may be absent, and cannot be null."""
    kinds = [s for s in schema.get("anyOf", ()) if s != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**{k: v for k, v in schema.items() if k != "anyOf"}, **kinds[0]}


def _discriminators(properties: Json) -> set[str]:
    """Return the fields that a request needs in addition to the required ones: the `type` that tells parts
    apart."""
    return {name for name, schema in properties.items() if "const" in schema}


def _fields_that_may_be_absent() -> defaultdict[str, set[str]]:
    """Return the fields that are not in every answer, by the name of their schema, which is the model's."""
    fields = defaultdict[str, set[str]](set)
    models = [Value]
    for model in models:
        models += model.__subclasses__()
        fields[model.__name__] |= {n for n, f in model.model_fields.items() if f.exclude_if}
    return fields


def _reachable(value: Any, schemas: Json, visited: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of the schemas that a part of the document refers to, and of those that they refer
    to."""
    names: set[str] = set()
    for name in _references(value):
        if name in schemas and name not in visited | names:
            names |= {name} | _reachable(schemas[name], schemas, visited | names | {name})
    return names


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.rsplit("/", 1)[1]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
