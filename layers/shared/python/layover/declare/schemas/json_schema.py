"""JSON schemas for models: without noise, and in the subset that OpenAI's strict mode accepts.

Strict mode (platform.openai.com, "Structured outputs", supported schemas): objects are closed and
require all their properties; the root is an object; there are no defaults, tuples, open maps, or
combinators other than `anyOf`; `$ref` stands alone. Validation here is pydantic's and stays exact,
so a constraint that the mode does not know moves into the description instead of making the whole
schema non-strict."""

import json
import re
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_KEPT = frozenset(
    {
        "description",
        "enum",
        "type",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)
_NOTED = frozenset({"default", "minLength", "maxLength", "uniqueItems", "examples"})
_DROPPED = frozenset(
    {
        "title",
        "$defs",
        "discriminator",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
    }
)
_STRUCTURE = frozenset(
    {
        "$ref",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "oneOf",
        "const",
        "pattern",
        "format",
    }
)
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_MAX_ENUM = 1000
_REF = re.compile(r'"(#/\$defs/[^"]+)"')


class _NotStrict(Exception):
    """The schema uses something that strict mode cannot express."""


def tidy(schema: Schema) -> Schema:
    """Return the schema without the titles that pydantic makes up from names."""
    return {k: _tidy_value(k, v) for k, v in schema.items() if k != "title"}


def _tidy_value(keyword: str, value: Any) -> Any:
    if keyword in ("properties", "$defs", "patternProperties"):
        return {name: _tidy_any(s) for name, s in value.items()}
    if keyword in ("default", "examples", "enum", "const"):
        return value
    return _tidy_any(value)


def _tidy_any(value: Any) -> Any:
    if isinstance(value, dict):
        return tidy(value)
    if isinstance(value, list):
        return [_tidy_any(v) for v in value]
    return value


def strict(schema: Schema) -> Schema | None:
    """Return the same schema for strict mode, or None if strict mode cannot express it. A property with a
    default becomes required; its description states the default."""
    root = dict(schema)
    defs: Schema = root.get("$defs", {})
    if "$ref" in root:
        root = {**_resolve(root["$ref"], defs), **{k: v for k, v in root.items() if k != "$ref"}}
    try:
        strict_defs = {name: _strict(s, defs) for name, s in defs.items()}
        result = _strict(root, defs)
    except _NotStrict:
        return None
    if result.get("type") != "object":
        return None
    return {**result, "$defs": strict_defs} if strict_defs else result


def takes_null(schema: Schema, defs: Mapping[str, Any]) -> bool:
    """Return whether `null` is a value of this schema."""
    if "$ref" in schema:
        return takes_null(_resolve(schema["$ref"], defs), defs)
    if "anyOf" in schema or "oneOf" in schema:
        return any(takes_null(s, defs) for s in schema.get("anyOf") or schema["oneOf"])
    if "enum" in schema:
        return None in schema["enum"]
    if "const" in schema:
        return schema["const"] is None
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def nullable(schema: Schema) -> Schema:
    """Return a schema of the same values and `null`."""
    description = {k: v for k, v in schema.items() if k in ("description", "default")}
    inner = {k: v for k, v in schema.items() if k not in description}
    return {"anyOf": [inner, {"type": "null"}], **description}


def is_object(schema: Schema) -> bool:
    """Return whether every value of the schema is an object."""
    if "$ref" in schema:
        return is_object(_resolve(schema["$ref"], schema.get("$defs", {})))
    return schema.get("type") == "object"


def _resolve(ref: str, defs: Mapping[str, Any]) -> Schema:
    name = ref.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
    schema: Schema = defs[name]
    return schema


def _strict(schema: Schema, defs: Mapping[str, Any]) -> Schema:
    if not isinstance(schema, dict) or schema.keys() - _KEPT - _NOTED - _DROPPED - _STRUCTURE:
        raise _NotStrict
    if "$ref" in schema:
        return _strict_ref(schema, defs)
    result = {k: v for k, v in schema.items() if k in _KEPT}
    notes = {k: schema[k] for k in schema if k in _NOTED}
    _strict_text(schema, result, notes)
    _strict_enum(schema, result)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        result["anyOf"] = [_strict(s, defs) for s in branches]
    elif "type" not in result:
        raise _NotStrict
    if result.get("type") == "object":
        result |= _strict_object(schema, defs)
    if result.get("type") == "array":
        result["items"] = _strict(schema.get("items", {}), defs)
    return _described(result, notes)


def _strict_ref(schema: Schema, defs: Mapping[str, Any]) -> Schema:
    """Return a reference that stands alone; next to a description its target is copied in."""
    siblings = {k: v for k, v in schema.items() if k in ("description", "default")}
    if not siblings:
        return {"$ref": schema["$ref"]}
    if schema["$ref"] in _reachable(schema["$ref"], defs):
        return {"$ref": schema["$ref"]}
    return _strict({**_resolve(schema["$ref"], defs), **siblings}, defs)


def _reachable(ref: str, defs: Mapping[str, Any]) -> set[str]:
    """Return the references that are reached from this one; itself among them if it is recursive."""
    visited: set[str] = set()
    open_ = [ref]
    while open_:
        new = set(_REF.findall(json.dumps(_resolve(open_.pop(), defs), default=str))) - visited
        visited |= new
        open_ += new
    return visited


def _strict_text(schema: Schema, result: Schema, notes: Schema) -> None:
    if "format" in schema:
        target = result if schema["format"] in _FORMATS else notes
        target["format"] = schema["format"]
    # Strict mode refuses look-around; pydantic's own pattern of a Decimal has it.
    if "pattern" in schema and "(?" not in schema["pattern"].replace("(?:", ""):
        result["pattern"] = schema["pattern"]


def _strict_enum(schema: Schema, result: Schema) -> None:
    if "const" in schema:
        result["enum"] = [schema["const"]]
    values = result.get("enum")
    if values is None:
        return
    if len(values) > _MAX_ENUM or any(type(v) not in _JSON_TYPES for v in values):
        raise _NotStrict
    if "type" not in result:
        kinds = list(dict.fromkeys(_JSON_TYPES[type(v)] for v in values))
        result["type"] = kinds[0] if len(kinds) == 1 else kinds


def _strict_object(schema: Schema, defs: Mapping[str, Any]) -> Schema:
    if schema.get("additionalProperties", False) is not False or (
        "properties" not in schema and "additionalProperties" not in schema
    ):
        raise _NotStrict
    properties = {name: _strict(s, defs) for name, s in schema.get("properties", {}).items()}
    return {
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _described(result: Schema, notes: Schema) -> Schema:
    if notes.get("default", ...) is None:
        notes = {k: v for k, v in notes.items() if k != "default"}
    if not notes:
        return result
    notes_text = ", ".join(f"{k}: {json.dumps(v, ensure_ascii=False)}" for k, v in notes.items())
    before = result.get("description")
    return {**result, "description": f"{before} ({notes_text})" if before else f"({notes_text})"}
