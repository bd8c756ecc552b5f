"""Schemas that are good JSON Schema and that providers refuse: rewritten for models, kept for arguments."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from layover import tool, tool_from_schema
from layover.declare.schemas.provider_schema import MAX_JOINED
from layover.declare.schemas.references import nested
from layover.declare.tools.json_schema_signature import json_schema_signature
from layover.declare.tools.served import accept
from layover.plugins.models.google_schema import google_parameters
from support.mcp_servers import listed

Json = dict[str, Any]

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
REFUSED_AT_THE_ROOT = {"oneOf", "anyOf", "allOf", "enum", "not", "$ref"}
"""OpenAI's words for a function's schema; Anthropic names three of them."""

NAMES = ("content", "source_url", "file_id")
UNION = {"type": "object", "anyOf": [{"required": [n], "properties": {n: TEXT}} for n in NAMES]}
VARIANTS = {
    "type": "object",
    "properties": {"index": NUMBER, "x": NUMBER, "y": NUMBER},
    "oneOf": [{"required": ["index"]}, {"required": ["x", "y"]}],
}
KINDS = {
    "oneOf": [{"$ref": "#/$defs/Post"}, {"$ref": "#/$defs/Wire"}],
    "$defs": {
        "Post": {
            "type": "object",
            "properties": {"by": {"const": "post"}, "street": TEXT},
            "required": ["by", "street"],
        },
        "Wire": {
            "type": "object",
            "properties": {"by": {"const": "wire"}, "street": NUMBER},
            "required": ["by"],
        },
    },
}
PARTS = {
    "type": "object",
    "allOf": [
        {"properties": {"a": TEXT}, "required": ["a"]},
        {"anyOf": [{"properties": {"b": TEXT}}, {"properties": {"c": TEXT}}]},
    ],
    "not": {"required": ["b", "c"]},
}
DRAFT_4 = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "required": True},
        "share": {"type": "number", "maximum": 1, "exclusiveMaximum": False, "required": False},
        "pair": {"type": "array", "items": [NUMBER, TEXT], "additionalItems": False},
    },
}
NAMED_DRAFT_4 = {**DRAFT_4, "$schema": "http://json-schema.org/draft-04/schema#"}
LISTS = {
    "type": "object",
    "properties": {
        "ids": {"type": "array"},
        "rows": {"type": ["array", "null"], "items": {"type": "array"}},
    },
}

VALUES: dict[str, tuple[Json, list[Json], list[Json]]] = {
    "union": (UNION, [{"content": "x"}, {"file_id": "f", "source_url": "u"}], [{}, {"content": 1}]),
    "variants": (
        VARIANTS,
        [{"index": 1}, {"x": 1, "y": 2}],
        [{"x": 1}, {"index": 1, "x": 1, "y": 2}],
    ),
    "kinds": (
        KINDS,
        [{"by": "post", "street": "Elm"}, {"by": "wire", "street": 5}],
        [{"by": "air"}, {}],
    ),
    "parts": (PARTS, [{"a": "x", "b": "y"}], [{"b": "y"}, {"a": "x", "b": "y", "c": "z"}]),
    "draft 4": (DRAFT_4, [{"count": 1, "share": 1, "pair": [1, "x"]}], [{"count": 0}, {}]),
    "named draft 4": (
        NAMED_DRAFT_4,
        [{"count": 1}],
        [{"count": 0}, {}, {"count": 1, "pair": ["x"]}],
    ),
    "lists": (LISTS, [{"ids": [1, "x"], "rows": [[1]]}, {"rows": None}], [{"ids": 1}]),
}
"""Schemas with arguments that fit and others that do not."""


def never(**_: Any) -> None:
    raise AssertionError


def shown(schema: Json) -> Json:
    """The schema as models see it."""
    return tool_from_schema("t", "Does it.", schema, never).parameters


def refusals(schema: Json) -> Iterator[str]:
    """What OpenAI and Anthropic say of a function's schema."""
    if schema.get("type") != "object" or schema.keys() & REFUSED_AT_THE_ROOT:
        yield "schema must have type 'object' and no combination at the top level"
    for place, each in nested(schema):
        kinds = each.get("type", ())
        if "array" in ([kinds] if isinstance(kinds, str) else kinds) and "items" not in each:
            yield f"{place}: array schema missing items"
    yield from (
        error.message
        for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)
    )


@pytest.mark.parametrize("name", VALUES)
def test_no_provider_has_a_reason_to_refuse_what_models_see(name: str) -> None:
    schema, fit, _ = VALUES[name]
    assert [*refusals(shown(schema))] == []
    for args in fit:
        Draft202012Validator(shown(schema)).validate(args)


@pytest.mark.parametrize("name", VALUES)
def test_arguments_are_checked_by_the_schema_as_it_was(name: str) -> None:
    schema, fit, unfit = VALUES[name]
    signature = json_schema_signature(never, "t", schema)
    for args in fit:
        assert signature.validate(args).as_dict() == args
    for args in unfit:
        with pytest.raises(ValidationError):
            signature.validate(args)


@pytest.mark.parametrize("name", VALUES)
def test_gemini_gets_all_arguments_too(name: str) -> None:
    parameters = google_parameters(shown(VALUES[name][0]))
    assert parameters is not None
    assert parameters["properties"].keys() == shown(VALUES[name][0])["properties"].keys()


@pytest.mark.parametrize("name", VALUES)
def test_no_tool_of_a_server_is_left_out_for_its_schema(name: str) -> None:
    schema = {"type": "object", **VALUES[name][0]}
    assert accept("shop", [listed("find", schema)]).left_out == ()


def test_which_arguments_go_together_is_told_in_words() -> None:
    assert "exactly one of these sets: index; x, y." in shown(VARIANTS)["description"]
    assert (
        "at least one of these sets: content; source_url; file_id." in shown(UNION)["description"]
    )
    assert (
        'exactly one of these sets: by = "post", street; by = "wire".'
        in shown(KINDS)["description"]
    )
    assert shown({**VARIANTS, "description": "Moves."})["description"].startswith("Moves.\n\nGive")


def test_what_all_choices_require_is_required() -> None:
    assert shown(KINDS)["required"] == ["by"]
    assert "required" not in shown(UNION)
    assert shown(PARTS)["required"] == ["a"]
    assert shown(DRAFT_4)["required"] == ["count"]


def test_an_argument_that_choices_describe_in_two_ways_may_be_either() -> None:
    assert shown(KINDS)["properties"]["street"] == {"anyOf": [TEXT, NUMBER]}


def test_a_schema_that_providers_take_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [TEXT, {"type": "array", "items": NUMBER}]}},
        "required": ["a"],
    }
    assert shown(schema) == schema


def test_a_small_schema_that_says_billions_of_others_is_joined_in_no_time() -> None:
    def doubled(at: int) -> Json:
        return {"type": "object", "anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2}

    depth = MAX_JOINED // 4
    schema = {**doubled(-1), "$defs": {f"d{at}": doubled(at) for at in range(depth)}}
    schema["$defs"][f"d{depth}"] = {"type": "object", "properties": {"a": TEXT}}
    assert [*refusals(shown(schema))] == []


def test_a_tuple_of_type_hints_is_a_list_with_items() -> None:
    @tool
    def move(to: tuple[int, str], path: list[Any]) -> None:
        """Move."""

    assert [*refusals(move.parameters)] == []
    assert re.search("prefixItems", str(move.parameters))
