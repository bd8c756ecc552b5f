"""A value that a JSON schema accepts, to be filled in by a person."""

from collections.abc import Mapping
from typing import Any

from layover.approvals.schema_errors import schema_errors

Schema = Mapping[str, Any]
BLANK = "..."
"""Text for a person to replace."""
_FORMATS = {
    "date": "2030-01-31",
    "date-time": "2030-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_UNIONS = ("anyOf", "oneOf")


def skeleton(schema: Schema) -> Any:
    """Return a small value that has what the schema requires. A rule that no plain value meets, such as a
    pattern, is left to the person who fills it in."""
    return _Skeleton(schema).value(schema, frozenset())


class _Skeleton:
    """`root`: the schema into which references point. `visited`: the references that led to a schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def value(self, schema: Any, visited: frozenset[str]) -> Any:
        """Return a value for the schema; None where it requires itself."""
        if not isinstance(schema, Mapping):  # `true`: anything goes
            return BLANK
        if "$ref" in schema:
            pointer = str(schema["$ref"])
            if pointer in visited:
                return None
            rest = {name: each for name, each in schema.items() if name != "$ref"}
            return self.value({**self._target(pointer), **rest}, visited | {pointer})
        if (name := next((n for n in _UNIONS if schema.get(n)), None)) is not None:
            rest = {n: each for n, each in schema.items() if n not in _UNIONS}
            return self.value({**_choose(schema[name], visited), **rest}, visited)
        if schema.get("allOf"):
            rest = {n: each for n, each in schema.items() if n != "allOf"}
            return self.value({**_merge(schema["allOf"]), **rest}, visited)
        return self._plain(schema, visited)

    def _plain(self, schema: Schema, visited: frozenset[str]) -> Any:
        for name in ("const", "default"):
            if name in schema:
                return schema[name]
        for name in ("enum", "examples"):
            if schema.get(name):
                return schema[name][0]
        match _type(schema):
            case "object":
                return self._object(schema, visited)
            case "array":
                return self._array(schema, visited)
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                text = _FORMATS.get(str(schema.get("format")), BLANK)
                return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]

    def _object(self, schema: Schema, visited: frozenset[str]) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {name: self.value(properties.get(name), visited) for name in required}

    def _array(self, schema: Schema, visited: frozenset[str]) -> list[Any]:
        """Return the elements with their own schemas, and as many of the others as are required, or one that
        shows what they look like."""
        own = [self.value(each, visited) for each in schema.get("prefixItems") or ()]
        items = schema.get("items")
        is_needless = (
            own or not items or (isinstance(items, Mapping) and items.get("$ref") in visited)
        )
        least = schema.get("minItems", 0) - len(own)
        count = max(least, 0 if is_needless else 1)
        return own + [self.value(items, visited) for _ in range(count)]

    def _target(self, pointer: str) -> Schema:
        schema: Any = self._root
        for name in pointer.removeprefix("#").strip("/").split("/"):
            schema = schema.get(name) if name and isinstance(schema, Mapping) else schema
        return schema if isinstance(schema, Mapping) else {}


def _choose(choices: list[Schema], visited: frozenset[str]) -> Schema:
    """Return the first alternative that is not null and does not lead back to itself."""
    ending = [c for c in choices if isinstance(c, Mapping) and c.get("$ref") not in visited]
    real = [c for c in ending if c.get("type") != "null"]
    return next(iter([*real, *ending]), {})


def _merge(schemas: list[Schema]) -> Schema:
    return {name: each for schema in schemas for name, each in schema.items()}


def _type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return next((str(k) for k in kind if k != "null"), "null")
    if kind is not None:
        return str(kind)
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _number(schema: Schema) -> float:
    """Return the plainest number that the schema's bounds allow."""
    names = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
    bounds = [schema[name] for name in names if name in schema]
    candidates = [0, 1, *(bound + step for bound in bounds for step in (0, 1, -1))]
    if len(bounds) > 1:
        candidates.append((bounds[0] + bounds[1]) / 2)
    return next((n for n in candidates if not schema_errors(dict(schema), n)), 0)
