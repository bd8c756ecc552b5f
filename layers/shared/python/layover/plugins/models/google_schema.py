"""JSON schemas in the subset that Gemini's API takes (https://ai.google.dev/api/caching#Schema).

It refuses a request for a keyword that it does not know ("Unknown name ..."). Layover checks arguments and
outputs by the author's own schema, so what is dropped here is still demanded of the model's answer."""

from collections.abc import Mapping
from typing import Any

from layover.declare.schemas.json_schema import merged
from layover.declare.schemas.references import Schema

_AS_IT_IS = (
    "title",
    "description",
    "nullable",
    "default",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
)
_FORMATS = {
    "string": ("enum", "date-time"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
"""Formats that it takes, by type. It refuses others."""
_UNIONS = ("anyOf", "oneOf")
_MAX_DEPTH = 16
"""Levels below which a schema that contains itself is any object: there are no references."""
_ANY: Schema = {"type": "string"}
"""In the place of a value of any type: each has to have one, and a text can say anything."""


def google_parameters(schema: Schema) -> Schema | None:
    """Return the parameters of a tool; None if it has none: an object without properties is refused."""
    parameters = google_schema(schema)
    return parameters if parameters.get("properties") else None


def google_schema(schema: Schema) -> Schema:
    """Return a schema in the subset. References lead to `#` or `#/$defs/NAME`."""
    return _Reader(schema).read(schema, 0)


class _Reader:
    """Rewrites the schemas below one root."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def read(self, schema: Any, depth: int) -> Schema:
        """Return one schema in the subset."""
        if not isinstance(schema, Mapping):
            return dict(_ANY)
        if depth > _MAX_DEPTH:
            return {"type": "object"}
        whole = self._whole(schema)
        union = [each for name in _UNIONS for each in whole.get(name, ())]
        if union:
            return self._union(whole, union, depth)
        types = whole.get("type")
        if isinstance(types, list):
            each_type = [{**whole, "type": each} for each in types]
            return self._union({"description": whole.get("description")}, each_type, depth)
        return self._plain(whole, depth)

    def _whole(self, schema: Mapping[str, Any]) -> Schema:
        """Return a schema with what its references and its `allOf` say, its own words first."""
        whole = dict(schema)
        for _ in range(_MAX_DEPTH):
            parts = [*whole.pop("allOf", ())]
            if "$ref" in whole:
                parts.append(self._target(str(whole.pop("$ref"))))
            if not parts:
                break
            for part in parts:
                if isinstance(part, Mapping):
                    whole = merged(dict(part), whole)
        return whole

    def _target(self, reference: str) -> Any:
        if reference == "#":
            return self._root
        return self._root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})

    def _union(self, whole: Schema, union: list[Any], depth: int) -> Schema:
        """Return one of several schemas. `anyOf` stands alone; null is a property of the others."""
        description = whole.get("description")
        rest = [each for each in union if not _is_null(each)]
        nullable = {"nullable": True} if len(rest) < len(union) else {}
        read = [self.read(each, depth + 1) for each in rest]
        if description:
            read = [{**each, "description": each.get("description", description)} for each in read]
        if len(read) == 1:
            return {**read[0], **nullable}
        if not read:
            return {**_ANY, "nullable": True}
        return {"anyOf": [{**each, **nullable} for each in read]}

    def _plain(self, schema: Schema, depth: int) -> Schema:
        result = {name: schema[name] for name in _AS_IT_IS if name in schema}
        result["type"] = kind = _type_of(schema)
        if schema.get("format") in _FORMATS.get(kind, ()):
            result["format"] = schema["format"]
        result |= _bounds(schema, kind)
        if kind == "object":
            properties = schema.get("properties", {})
            if properties:
                result["properties"] = {n: self.read(p, depth + 1) for n, p in properties.items()}
                required = [name for name in schema.get("required", ()) if name in properties]
                result |= {"required": required} if required else {}
        if kind == "array":
            result["items"] = self._items(schema, depth)
        return _with_choices(result, schema)

    def _items(self, schema: Schema, depth: int) -> Schema:
        items = schema.get("items")
        places = [each for each in schema.get("prefixItems", ()) if isinstance(each, Mapping)]
        if places:
            more = [items] if isinstance(items, Mapping) and items else []
            return self.read({"anyOf": [*places, *more]}, depth + 1)
        return self.read(items or {}, depth + 1)


def _is_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return schema.get("type") == "null" or ("const" in schema and schema["const"] is None)


def _type_of(schema: Schema) -> str:
    """Return the type of a schema, which the API demands, by its keywords where it names none."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return "string" if kind == "null" else kind
    if "properties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    kinds = {type(each) for each in _choices(schema)}
    if kinds <= {int} and kinds:
        return "integer"
    if kinds <= {int, float} and kinds:
        return "number"
    return "boolean" if kinds == {bool} else "string"


def _bounds(schema: Schema, kind: str) -> Schema:
    """Return the bounds that a schema excludes, as bounds that it includes."""
    step = 1 if kind == "integer" else 0
    bounds: Schema = {}
    for name, target, by in (
        ("exclusiveMinimum", "minimum", step),
        ("exclusiveMaximum", "maximum", -step),
    ):
        value = schema.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            bounds[target] = value + by
    return bounds


def _choices(schema: Schema) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return [*schema.get("enum", ())]


def _with_choices(result: Schema, schema: Schema) -> Schema:
    """Return a schema with its choices: an enumeration of texts, as the API has no other, else in words."""
    choices = _choices(schema)
    texts = [each for each in choices if isinstance(each, str)]
    if not choices:
        return result
    if None in choices:
        result["nullable"] = True
    others = [each for each in choices if each is not None]
    if texts == others and result["type"] == "string":
        return {**result, "enum": texts} if texts else result
    words = f"One of: {', '.join(map(repr, others))}"
    description = result.get("description")
    return {**result, "description": f"{description} {words}" if description else words}
