"""References in schemas: each leads to a place in the schema, or the tool is refused when it is made."""

import socketserver
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from typing_extensions import TypeAliasType

from layover import Agent, DefinitionError, ToolContext, tool, tool_from_schema
from layover.declare.tools.questions import question_of
from layover.declare.tools.served import accept
from layover.declare.tools.tool import AnyTool
from unit.declare.test_tool_schemas import assert_accepted_in_strict_mode

ADDRESS = {
    "type": "object",
    "properties": {"street": {"type": "string"}},
    "required": ["street"],
    "additionalProperties": False,
}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def closed(**properties: Any) -> dict[str, Any]:
    """An object with these properties, all required, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def given(schema: dict[str, Any]) -> AnyTool:
    return tool_from_schema("order", "Send an order.", schema, lambda **args: args)


NOWHERE = {
    "no such definition": closed(a={"$ref": "#/$defs/Pet"}),
    "left over from OpenAPI": closed(a={"$ref": "#/components/schemas/Pet"}),
    "no such property": closed(a={"$ref": "#/properties/b"}),
    "no such anchor": closed(a={"$ref": "#pet"}),
    "no such index": closed(a={"$ref": "#/properties/b/anyOf/2"}, b={"anyOf": [{"type": "null"}]}),
    "a word where an index is": closed(
        a={"$ref": "#/properties/b/anyOf/x"}, b={"anyOf": [{"type": "null"}]}
    ),
    "no schema": closed(a={"$ref": "#/properties/b/type"}, b={"type": "string"}),
    "below a text": closed(a={"$ref": "#/properties/b/type/x"}, b={"type": "string"}),
    "below a number": closed(a={"$ref": "#/properties/b/minimum/x"}, b={"minimum": 1}),
    "an address": closed(a={"$ref": "https://example.com/pet.json"}),
    "another file": closed(a={"$ref": "pet.json#/definitions/Pet"}),
    "a path on this machine": closed(a={"$ref": "file:///etc/hostname"}),
    "no address at all": closed(a={"$ref": "http://[x"}),
    "the schema of schemas": closed(a={"$ref": DRAFT_7}),
    "beside a description": closed(a={"$ref": "#/$defs/Pet", "description": "d"}),
    "dynamic": closed(a={"$dynamicRef": "#node"}),
    "old definition": {**closed(a={"$ref": "#/definitions/Pet"}), "$schema": DRAFT_7},
    "at the root": {"$ref": "#/$defs/Pet"},
    "in a list": closed(a={"type": "array", "items": {"$ref": "#/$defs/Pet"}}),
    "in a tuple": closed(a={"prefixItems": [{"$ref": "#/$defs/Pet"}]}),
    "in a choice": closed(a={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Pet"}]}),
    "in a condition": {**closed(), "if": {"required": []}, "then": {"$ref": "#/$defs/Pet"}},
    "in an open map": closed(a={"additionalProperties": {"$ref": "#/$defs/Pet"}}),
    "in a definition": {**closed(), "$defs": {"A": {"$ref": "#/$defs/Pet"}}},
    "behind a reference": {
        **closed(a={"$ref": "#/components/A"}),
        "components": {"A": {"$ref": "#/components/B"}},
    },
}


@pytest.mark.parametrize("schema", NOWHERE.values(), ids=list(NOWHERE))
def test_a_reference_that_leads_nowhere_is_refused_when_the_tool_is_made(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(DefinitionError, match=r"^tool 'order': schema: \$(dynamicR|r)ef '.+' at #"):
        given(schema)


def test_the_refusal_names_the_place_and_what_to_do() -> None:
    with pytest.raises(DefinitionError) as refused:
        given(closed(pet={"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}))
    assert str(refused.value) == (
        "tool 'order': schema: $ref '#/components/schemas/Pet' at #/properties/pet/items leads nowhere "
        "in the schema: add what it names to '$defs' of the schema"
    )
    with pytest.raises(DefinitionError, match="nothing is fetched: copy what it names into"):
        given(closed(pet={"$ref": "https://example.com/pet.json"}))


CIRCLES = {
    "the root": {"type": "object", "$ref": "#"},
    "to itself": {**closed(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "to each other": {
        **closed(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "through a combination": {
        **closed(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"allOf": [{"type": "object"}, {"$ref": "#/$defs/A"}]}},
    },
    "through a choice": {
        **closed(a={"$ref": "#/definitions/A"}),
        "definitions": {"A": {"anyOf": [{"type": "integer"}, {"$ref": "#/definitions/A"}]}},
    },
}


@pytest.mark.parametrize("schema", CIRCLES.values(), ids=list(CIRCLES))
def test_references_in_a_circle_are_refused_when_the_tool_is_made(schema: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="lead in a circle"):
        given(schema)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (closed(a={"$ref": 5}), "not a JSON schema"),
        ({**closed(a={"$ref": 5}), "$schema": "http://json-schema.org/draft-04/schema#"}, "a text"),
        (
            {**closed(a={"$ref": "#/components/A"}), "components": {"A": {"type": "objekt"}}},
            "not a JSON schema",
        ),
        (closed(a={"default": {1, 2}}), "not JSON"),
        (closed(a={"default": float("nan")}), "not JSON"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, "of an object"),
        ({"$ref": "#/$defs/A", "$defs": {"A": True}}, "of an object"),
    ],
)
def test_what_is_no_schema_is_refused_when_the_tool_is_made(
    schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DefinitionError, match=problem):
        given(schema)


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(DefinitionError, match="nested deeper"):
        given(closed(a=schema))


FITS: Any = {"bill": {"street": "Elm 1"}, "ship": {"street": "Oak 2"}}
NOT: Any = {"bill": {}, "ship": {}}
TREE = {"name": "docs", "parent": {"name": "home"}}
NO_TREE = {"name": "docs", "parent": {"called": "home"}}
# The schema, arguments that fit, and arguments that do not.
INSIDE: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a property": (closed(bill=ADDRESS, ship={"$ref": "#/properties/bill"}), FITS, NOT),
    "beside a description": (
        closed(bill=ADDRESS, ship={"$ref": "#/properties/bill", "description": "d"}),
        FITS,
        NOT,
    ),
    "in a list": (
        closed(
            bill={"type": "array", "items": ADDRESS},
            ship={"$ref": "#/properties/bill/items"},
        ),
        {"bill": [], "ship": {"street": "Oak 2"}},
        {"bill": [], "ship": {}},
    ),
    "the root": (
        {
            **closed(name={"type": "string"}, parent={"$ref": "#", "description": "above"}),
            "required": ["name"],
        },
        TREE,
        NO_TREE,
    ),
    "old definitions": (
        {
            **closed(bill={"$ref": "#/definitions/A"}, ship={"$ref": "#/definitions/A"}),
            "definitions": {"A": ADDRESS},
        },
        FITS,
        NOT,
    ),
    "all in a definition, as zod writes a named schema": (
        {
            "$schema": DRAFT_7,
            "$ref": "#/definitions/Order",
            "definitions": {
                "Order": closed(
                    bill=ADDRESS, ship={"$ref": "#/definitions/Order/properties/bill"}
                )
            },
        },
        FITS,
        NOT,
    ),
    "over two definitions": (
        {
            "$ref": "#/$defs/One",
            "$defs": {
                "One": {"$ref": "#/$defs/Two"},
                "Two": closed(bill={"$ref": "#/$defs/A"}, ship={"$ref": "#/$defs/A"}),
                "A": ADDRESS,
            },
        },
        FITS,
        NOT,
    ),
    "the rest of OpenAPI": (
        {
            **closed(bill={"$ref": "#/components/schemas/A"}, ship={"$ref": "#/components/schemas/B"}),
            "components": {"schemas": {"A": ADDRESS, "B": {"$ref": "#/components/schemas/A"}}},
        },
        FITS,
        NOT,
    ),
    "a name with a slash, a blank and a tilde": (
        {
            **closed(bill={"$ref": "#/$defs/a~1b%20c~0d"}, ship={"$ref": "#/$defs/a_b c"}),
            "$defs": {"a/b c~d": ADDRESS, "a_b c": ADDRESS},
        },
        FITS,
        NOT,
    ),
    "a property called by a slash": (
        closed(**{"bill": ADDRESS, "a/b": ADDRESS, "ship": {"$ref": "#/properties/a~1b"}}),
        {**FITS, "a/b": {"street": "x"}},
        {**NOT, "a/b": {"street": "x"}},
    ),
    "an anchor": (
        closed(bill={**ADDRESS, "$anchor": "address"}, ship={"$ref": "#address"}),
        FITS,
        NOT,
    ),
    "an id": (
        {
            "$id": "https://example.com/order.json",
            **closed(bill={"$ref": "parts/address.json"}, ship={"$ref": "order.json#/properties/bill"}),
            "$defs": {"A": {"$id": "parts/address.json", "$defs": {"S": {"type": "string"}}, **ADDRESS,
                            "properties": {"street": {"$ref": "#/$defs/S"}}}},
        },
        FITS,
        NOT,
    ),
    "around a combination": (
        {
            **closed(bill={"allOf": [{"$ref": "#/$defs/A"}]}, ship={"allOf": [{"$ref": "#/$defs/A"}]}),
            "$defs": {"A": ADDRESS},
        },
        FITS,
        NOT,
    ),
    "rules next to it": (
        {**closed(bill={"$ref": "#/$defs/N", "maximum": 5}), "$defs": {"N": {"type": "integer"}}},
        {"bill": 5},
        {"bill": 6},
    ),
    "a definition that takes anything": (
        {**closed(bill={"$ref": "#/$defs/Any"}, ship=ADDRESS), "$defs": {"Any": True}},
        FITS,
        NOT,
    ),
    "dynamic": (
        {
            "$dynamicAnchor": "node",
            **closed(name={"type": "string"}, parent={"$dynamicRef": "#node"}),
            "required": ["name"],
        },
        TREE,
        NO_TREE,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "fits", "not_"), INSIDE.values(), ids=list(INSIDE))
def test_a_reference_within_the_schema_works(schema: Any, fits: Any, not_: Any) -> None:
    made = given(schema)
    assert made.validate(fits).kwargs == fits
    with pytest.raises(ValidationError):
        made.validate(not_)


@pytest.mark.parametrize(("schema", "fits", "not_"), INSIDE.values(), ids=list(INSIDE))
def test_a_model_reads_references_to_definitions_only(schema: Any, fits: Any, not_: Any) -> None:
    made = given(schema)
    parameters = made.spec.parameters
    assert parameters["type"] == "object"
    assert set(parameters["properties"]) >= {"bill"} or set(parameters["properties"]) >= {"name"}
    for name, each in _everything(parameters):
        if name == "$ref":
            assert each == "#" or each.removeprefix("#/$defs/") in parameters["$defs"]
        assert name not in ("$dynamicRef", "$id", "$anchor", "definitions", "components")
    if made.spec.strict:
        assert_accepted_in_strict_mode(parameters)
    # The same schema for the model accepts the same: nothing was lost on the way.
    again = given(parameters)
    assert again.validate(fits).kwargs == fits
    with pytest.raises(ValidationError):
        again.validate(not_)


def _everything(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield name, each
            yield from _everything(each)
    elif isinstance(value, list):
        for each in value:
            yield from _everything(each)


def test_a_reference_to_a_property_is_strict_when_all_else_is() -> None:
    made = given(closed(bill=ADDRESS, ship={"$ref": "#/properties/bill"}))
    assert made.spec.strict
    assert made.parameters["$defs"] == {"bill": ADDRESS}
    assert not given(INSIDE["beside a description"][0]).spec.strict


def test_what_only_looks_like_a_reference_is_left_as_it_is() -> None:
    schema = {
        **closed(**{"$ref": {"type": "string"}, "a": {"enum": [{"$ref": "#/nowhere"}]}}),
        "default": {"$ref": "https://example.com"},
    }
    assert given(schema).parameters == schema


def test_a_schema_is_kept_as_it_was_when_the_tool_was_made() -> None:
    schema = closed(bill=ADDRESS)
    made = given(schema)
    schema["properties"]["bill"] = {"type": "integer"}
    assert made.validate({"bill": {"street": "x"}}).kwargs == {"bill": {"street": "x"}}


def test_a_handler_that_takes_one_dict_gets_it_from_a_schema_behind_a_reference() -> None:
    def whole(ctx: ToolContext, args: dict[str, Any]) -> str:
        return ""

    schema = INSIDE["over two definitions"][0]
    made = tool_from_schema("order", "Send an order.", schema, whole)
    assert made.validate(FITS).kwargs == {"args": FITS}


class _Counting(socketserver.BaseRequestHandler):
    asked: list[Any]

    def handle(self) -> None:
        self.asked.append(self.client_address)


@pytest.fixture
def inside() -> Iterator[tuple[str, list[Any]]]:
    """An address that notes who asks it."""
    asked: list[Any] = []
    handler = type("Handler", (_Counting,), {"asked": asked})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/latest/meta-data", asked
        server.shutdown()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_no_address_is_ever_asked(inside: tuple[str, list[Any]], keyword: str) -> None:
    address, asked = inside
    with pytest.raises(DefinitionError):
        given(closed(a={keyword: address}))
    # Unknown to the draft, this `$schema` is a name and no more.
    made = given({**closed(a={"type": "string"}), "$schema": address, "$id": address})
    assert made.validate({"a": "x"}).kwargs == {"a": "x"}
    assert asked == []


# Type hints


class Foreign(BaseModel):
    model_config = ConfigDict(json_schema_extra={"properties": {"a": {"$ref": "#/nowhere"}}})


Outer: Any = TypeAliasType("Outer", "Inner")
Inner = TypeAliasType("Inner", list[int])


def taking(hint: Any, **options: Any) -> AnyTool:
    def order(ctx: ToolContext, value: Any) -> str:
        """Order."""
        return ""

    order.__annotations__["value"] = hint
    return tool(**options)(order)


BAD = [
    Annotated[str, WithJsonSchema({"$ref": "#/nowhere"})],
    Annotated[str, WithJsonSchema({"$ref": "https://example.com/x.json"})],
    list[Annotated[str, WithJsonSchema({"$ref": "#/$defs/Nobody"})]],
    Foreign,
]


@pytest.mark.parametrize("hint", BAD, ids=str)
def test_a_type_that_refers_to_nowhere_is_refused_when_it_is_declared(hint: Any) -> None:
    with pytest.raises(DefinitionError, match=r"tool 'order': .*arguments: \$ref '.*"):
        taking(hint)
    with pytest.raises(DefinitionError, match=r"agent 'a': output.*: \$ref '.*"):
        Agent("a", output=list[hint])
    for waits in ({"suspend": hint, "resume": str}, {"suspend": str, "resume": hint}):
        with pytest.raises(DefinitionError, match=r"tool 'order': (suspend|resume)=.*: \$ref"):
            taking(int, **waits)


def test_an_alias_of_an_alias_is_an_output() -> None:
    spec = Agent("a", output=Outer).output_spec
    assert spec is not None
    assert spec.json_schema["type"] == "object"
    assert taking(Outer).spec.strict


def test_a_rule_next_to_a_reference_is_told_in_strict_mode_too() -> None:
    small = TypeAliasType("small", int)
    made = taking(Annotated[small, Field(json_schema_extra={"maximum": 5})])
    assert made.spec.strict
    assert made.parameters["properties"]["value"] == {"type": "integer", "maximum": 5}


@pytest.mark.parametrize("name", ["__proto__", "constructor", "prototype"])
def test_field_that_means_something_else_in_a_browser_is_refused(name: str) -> None:
    inner = closed(**{name: {"type": "string"}})
    deeper = closed(items={"type": "array", "items": inner})
    defined = {**closed(a={"$ref": f"#/$defs/{name}"}), "$defs": {name: {"type": "string"}}}
    for schema in (inner, closed(group=inner), deeper, {**closed(), "allOf": [inner]}, defined):
        with pytest.raises(DefinitionError, match=f"no field may be called '{name}'"):
            given(schema)
    refused = accept("shop", [{"name": "order", "inputSchema": closed(group=inner)}])
    assert [name in each.reason for each in refused.left_out] == [True]
    asked = {"message": "How?", "requestedSchema": inner}
    with pytest.raises(DefinitionError, match="no field may be called"):
        question_of("shop", "shop.example", asked)


@pytest.mark.parametrize("name", ["__proto__", "constructor", "prototype"])
def test_field_of_a_type_that_means_something_else_in_a_browser_is_refused(name: str) -> None:
    class Order(BaseModel):
        what: str = Field(alias=name)

    with pytest.raises(DefinitionError, match="no field may be called"):

        @tool
        def buy(order: Order) -> str:
            """Buy."""
            return order.what

    with pytest.raises(DefinitionError, match="no field may be called"):

        @tool(resume=Order, suspend=str)
        def ask(ctx: ToolContext) -> str:
            """Ask."""
            return str(ctx.resume)
