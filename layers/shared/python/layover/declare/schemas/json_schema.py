"""JSON schemas for models: without noise, and in the subset that OpenAI's strict mode accepts.

Strict mode (platform.openai.com, "Structured outputs", supported schemas): objects are closed and
require all their properties; the root is an object; there are no defaults, tuples, open maps, or
combinators other than `anyOf`; `$ref` stands alone. Validation here is pydantic's and stays exact,
so a constraint that the mode does not know moves into the description instead of making the whole
schema non-strict. A schema beyond the mode's sizes is not strict either."""

import json
from collections.abc import Iterator
from typing import Any

from layover.declare.schemas.references import Schema, references, resolve

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
_MAX_ENUM_CHARS = 15_000
"""OpenAI's bound for one enum of more than 250 values. Here it holds for all enums together, as more is
rare."""
_MAX_CHARS = 120_000
"""Characters of the names of properties and definitions, and of the values of enums."""
_MAX_PROPERTIES = 5000
_MAX_LEVELS = 10
"""Objects in each other. Lists count here, too: OpenAI does not say whether they do."""


class _NotStrict(Exception):
    """The schema uses something that strict mode cannot express."""


def tidy(schema: Schema) -> Schema:
    """Return the schema without the titles that pydantic makes up from names, and with `items` in a tuple."""
    return with_items({k: _tidy_value(k, v) for k, v in schema.items() if k != "title"})


def with_items(schema: Schema) -> Schema:
    """Return the schema of a list with `items`, and any other as it is: OpenAI refuses a list without."""
    kinds = schema.get("type")
    is_list = "array" in (kinds if isinstance(kinds, list) else [kinds])
    return (
        {**schema, "items": {}} if is_list and not isinstance(schema.get("items"), dict) else schema
    )


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
    root = rooted(schema)
    try:
        result = _strict(root, root)
        if result.get("type") != "object" or "anyOf" in result:
            return None
        if definitions := root.get("$defs"):
            result["$defs"] = {name: _strict(s, root) for name, s in definitions.items()}
        _check_sizes(result)
    except _NotStrict:
        return None
    return result


def rooted(schema: Schema) -> Schema:
    """Return the same schema without a `$ref` at its root, where providers take an object only. The target is
    copied in: what the root has next to its reference adds to it."""
    visited: set[str] = set()
    while (reference := schema.get("$ref")) is not None and reference not in visited:
        visited.add(reference)
        target = resolve(reference, schema)
        if not isinstance(target, dict):
            break
        schema = merged(target, {k: v for k, v in schema.items() if k != "$ref"})
    return schema


def merged(target: Schema, own: Schema) -> Schema:
    """Return what both schemas say of one value: the own one wins, with the properties of both."""
    both = {**target, **own}
    for name in ("properties", "$defs"):
        if name in target and name in own:
            both[name] = {**target[name], **own[name]}
    if "required" in target and "required" in own:
        both["required"] = list(dict.fromkeys([*target["required"], *own["required"]]))
    return both


def takes_null(schema: Any, root: Schema) -> bool:
    """Return whether `null` is a value of this schema."""
    if not isinstance(schema, dict):
        return bool(schema)
    if "$ref" in schema:
        return takes_null(resolve(schema["$ref"], root), root)
    if "anyOf" in schema or "oneOf" in schema:
        return any(takes_null(s, root) for s in schema.get("anyOf") or schema["oneOf"])
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
    return rooted(schema).get("type") == "object"


def _strict(schema: Any, root: Schema) -> Schema:
    if not isinstance(schema, dict) or schema.keys() - _KEPT - _NOTED - _DROPPED - _STRUCTURE:
        raise _NotStrict
    if "$ref" in schema:
        return _strict_ref(schema, root)
    result = {k: v for k, v in schema.items() if k in _KEPT}
    notes = {k: schema[k] for k in schema if k in _NOTED}
    _strict_text(schema, result, notes)
    _strict_enum(schema, result)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        result["anyOf"] = [_strict(s, root) for s in branches]
    elif "type" not in result:
        raise _NotStrict
    kinds = result.get("type")
    if isinstance(kinds, list) and {"object", "array"} & set(kinds):
        raise _NotStrict
    if kinds == "object":
        result |= _strict_object(schema, root)
    if kinds == "array":
        result["items"] = _strict(schema.get("items", {}), root)
    return _described(result, notes)


def _strict_ref(schema: Schema, root: Schema) -> Schema:
    """Return a reference that stands alone. Where it does not, its target is copied in; a recursive one loses
    what is next to it."""
    next_to_it = {k: v for k, v in schema.items() if k != "$ref" and k not in _DROPPED}
    reference = schema["$ref"]
    target = resolve(reference, root)
    if not next_to_it or reference in _reachable(target, root):
        return {"$ref": reference}
    if not isinstance(target, dict):
        raise _NotStrict
    return _strict({**target, **next_to_it}, root)


def _reachable(target: Any, root: Schema) -> set[str]:
    """Return the references in a schema and in all that it refers to."""
    visited: set[str] = set()
    open_ = [target]
    while open_:
        new = references(open_.pop()) - visited
        visited |= new
        open_ += [resolve(each, root) for each in new]
    return visited


def _check_sizes(schema: Schema) -> None:
    """Raise _NotStrict for a schema that is larger than OpenAI takes in strict mode (platform.openai.com,
    "Structured outputs", limitations)."""
    definitions = schema.get("$defs", {})
    every = [each for s in (schema, *definitions.values()) for each in _parts(s)]
    values = [value for each in every for value in each.get("enum", ())]
    names = [name for each in every for name in each.get("properties", ())]
    enum_chars = sum(len(str(value)) for value in values)
    if (
        len(values) > _MAX_ENUM
        or enum_chars > _MAX_ENUM_CHARS
        or len(names) > _MAX_PROPERTIES
        or sum(map(len, [*names, *definitions])) + enum_chars > _MAX_CHARS
    ):
        raise _NotStrict
    _check_levels(schema, schema, 0, frozenset(), {})


def _parts(schema: Schema) -> Iterator[Schema]:
    """Yield a strict schema and all schemas in it."""
    yield schema
    for inner in _inner(schema):
        yield from _parts(inner)


def _inner(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    if "items" in schema:
        yield schema["items"]


def _check_levels(
    schema: Schema, root: Schema, level: int, within: frozenset[str], deepest: dict[str, int]
) -> None:
    """Raise _NotStrict if values may be nested too deep. `within`: the references that led here, as a
    recursive schema is counted once; `deepest`: the level at which each reference was followed, so that none
    is twice at the same."""
    if (reference := schema.get("$ref")) is not None:
        if reference not in within and deepest.get(reference, -1) < level:
            deepest[reference] = level
            target = resolve(reference, root)
            _check_levels(target, root, level, within | {reference}, deepest)
        return
    if schema.get("type") in ("object", "array"):
        level += 1
    if level > _MAX_LEVELS:
        raise _NotStrict
    for inner in _inner(schema):
        _check_levels(inner, root, level, within, deepest)


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
    if not values or any(type(v) not in _JSON_TYPES for v in values):
        raise _NotStrict
    if "type" not in result:
        kinds = list(dict.fromkeys(_JSON_TYPES[type(v)] for v in values))
        result["type"] = kinds[0] if len(kinds) == 1 else kinds


def _strict_object(schema: Schema, root: Schema) -> Schema:
    if schema.get("additionalProperties", False) is not False or (
        "properties" not in schema and "additionalProperties" not in schema
    ):
        raise _NotStrict
    properties = {name: _strict(s, root) for name, s in schema.get("properties", {}).items()}
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
