"""Schemas of strangers and of authors, as models' providers take them.

No provider takes all of JSON Schema. What large ones refuse is rewritten here, once for each tool. What one
refuses is rewritten when it is asked (`layover.plugins.models.google_schema` and `argument_names`). Arguments
are checked by the schema as it was given: what a rewritten one cannot say is still demanded of a call."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from layover.declare.schemas.json_schema import merged, rooted, with_items
from layover.declare.schemas.references import Schema, nested
from layover.errors import DefinitionError

MAX_JOINED = 200
"""Schemas that the root of one is joined from. References can make a small schema say billions of them."""
_MAX_TOLD = 20
"""Choices that a description tells."""
_CHOICES = ("anyOf", "oneOf")
_REFUSED = ("not", "enum")
"""Keywords that OpenAI takes at every place but the root."""
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_BEFORE_2020 = ("draft-03", "draft-04")


def provider_schema(schema: Schema) -> Schema:
    """Return a schema as providers take it: one object at its root, in the words of 2020-12, with `items` in
    each list. References lead to `#` or `#/$defs/NAME`."""
    newer = modern(schema)
    whole = _Joiner(newer.get("$defs", {})).join(newer)
    for _, each in nested(whole):
        each |= with_items(each)
    return whole


def in_a_draft(schema: Schema, check: Callable[[Schema], None]) -> Schema:
    """Return the schema if it is one in its draft, else in the words of a later one. `check` raises
    DefinitionError, and so does this."""
    try:
        check(schema)
    except DefinitionError:
        newer = modern(schema)
        if newer == schema:
            raise
        check(newer)
        return newer
    return schema


def modern(schema: Schema) -> Schema:
    """Return the same schema in the words of JSON Schema 2020-12, where those of earlier drafts are refused:
    bounds and `required` as a truth, `items` as a list."""
    copy: Schema = json.loads(json.dumps(schema))
    for _, each in nested(copy):
        # What is below a schema is read after it: a part that moves is met at its new place.
        _require_properties(each)
        _exclude_bounds(each)
        _place_items(each)
    if copy != schema and any(draft in str(copy.get("$schema")) for draft in _BEFORE_2020):
        del copy["$schema"]
    return copy


def _require_properties(schema: Schema) -> None:
    properties = schema.get("properties")
    parts = properties if isinstance(properties, dict) else {}
    names = [
        n for n, part in parts.items() if isinstance(part, dict) and part.get("required") is True
    ]
    if isinstance(schema.get("required"), bool):
        del schema["required"]
    if names:
        schema["required"] = [*dict.fromkeys([*schema.get("required", ()), *names])]


def _exclude_bounds(schema: Schema) -> None:
    for exclusive, inclusive in _BOUNDS.items():
        if isinstance(is_excluded := schema.get(exclusive), bool):
            del schema[exclusive]
            if is_excluded and inclusive in schema:
                schema[exclusive] = schema.pop(inclusive)


def _place_items(schema: Schema) -> None:
    if not isinstance(schema.get("items"), list):
        return
    places, rest = schema.pop("items"), schema.pop("additionalItems", None)
    if places:
        schema["prefixItems"] = places
    if rest is not None:
        schema["items"] = rest


class _Joiner:
    """Joins what several schemas say of one object. `definitions`: what they refer to."""

    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions
        self._left = MAX_JOINED

    def join(self, schema: Schema) -> Schema:
        """Return an object's schema without a combination at its root. Each value that the given one takes
        fits it."""
        if self._left == 0:
            return {"type": "object"}
        self._left -= 1
        whole = {**rooted({**schema, "$defs": self._definitions})}
        if not self._definitions:
            del whole["$defs"]
        for part in self._all(whole.pop("allOf", ())):
            whole = merged(part, whole)
        for keyword in _CHOICES:
            if choices := self._all(whole.pop(keyword, ())):
                whole = _with_choices(whole, choices, keyword)
        return {name: value for name, value in whole.items() if name not in _REFUSED}

    def _all(self, schemas: Iterable[Any]) -> list[Schema]:
        return [self.join(each) for each in schemas if isinstance(each, dict)]


def _with_choices(whole: Schema, choices: Sequence[Schema], keyword: str) -> Schema:
    """Return an object's schema with the properties of all choices. Which of them go together is told in
    words."""
    by_name: dict[str, list[Any]] = {}
    for choice in choices:
        for name, each in choice.get("properties", {}).items():
            schemas = by_name.setdefault(name, [])
            if each not in schemas:
                schemas.append(each)
    properties = {n: each[0] if len(each) == 1 else {"anyOf": each} for n, each in by_name.items()}
    in_all = [
        n
        for n in choices[0].get("required", ())
        if all(n in c.get("required", ()) for c in choices)
    ]
    result = merged({"properties": properties, "required": in_all}, whole)
    if "type" not in whole and all(choice.get("type") == "object" for choice in choices):
        result["type"] = "object"
    if words := _choices_in_words(choices, in_all, keyword):
        result["description"] = "\n\n".join(filter(None, (whole.get("description"), words)))
    return result if result.get("required") else _without_required(result)


def _without_required(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "required"}


def _choices_in_words(choices: Sequence[Schema], in_all: Sequence[str], keyword: str) -> str:
    """Return which arguments go together; empty if the choices do not differ in what they require."""
    sets = [[*_required(choice, in_all)] for choice in choices]
    texts = [*dict.fromkeys(", ".join(names) for names in sets)]
    if not all(texts) or not 1 < len(texts) <= _MAX_TOLD:
        return ""
    how = "exactly one" if keyword == "oneOf" else "at least one"
    return f"Give the arguments of {how} of these sets: {'; '.join(texts)}."


def _required(choice: Schema, in_all: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that tell a choice from the others: those that they do not all require, and those
    that have one value in it."""
    for name in choice.get("required", ()):
        schema = choice.get("properties", {}).get(name)
        if isinstance(schema, dict) and "const" in schema:
            yield f"{name} = {json.dumps(schema['const'], ensure_ascii=False)}"
        elif name not in in_all:
            yield name
