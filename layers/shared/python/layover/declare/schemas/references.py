"""References of JSON schemas (`$ref`): each leads to a place of the same schema, or the schema is refused.

OpenAI takes references to `#/$defs/NAME` and `#` only (platform.openai.com, "Structured outputs"). Schemas
from elsewhere also have `#/definitions/...`, pointers into `#/properties/...`, anchors and `$id`s: what these
lead to is copied into `$defs`. Nothing is ever fetched: a validator or a provider that follows an address
would ask whatever host it names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import unquote

from layover.errors import DefinitionError

Schema = dict[str, Any]

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OWN = re.compile(r"#|#/\$defs/[A-Za-z0-9_.-]+")
"""References that every reader takes as they are."""
_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_SINGLE = frozenset(
    {
        "items",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "contentSchema",
        "not",
        "if",
        "then",
        "else",
    }
)
_SAME_VALUE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose schemas say something about the value itself, not about a part of it."""
_NAMES_PLACES = frozenset({"$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
RESERVED = frozenset({"__proto__", "constructor", "prototype"})
"""Names of no field: in JavaScript, every object has something of its language by them."""
_WORDS = _MAPS | _LISTS | _SINGLE | {"const", "default"}
"""Keywords that may have an object."""


class _Lookup(Protocol):
    """The reader of the references at one place."""

    def target(self, reference: str) -> "tuple[Any, _Lookup]":
        """Return what the reference leads to, and the reader of the references in it. Raises LookupError."""

    def within(self, inner: Any) -> "_Lookup":
        """Return the reader for a schema in the one at this place. It may have an `$id`."""


def self_contained(schema: Schema, what: str) -> Schema:
    """Return the schema with references to `#/$defs/NAME` and `#` only: itself if it has no others.

    `what` begins the message of a DefinitionError, which is raised for a reference that leads nowhere or out
    of the schema, for references that lead in a circle, and for a name of `RESERVED`."""
    has_only_own = all(
        keyword == "$ref" and isinstance(reference, str) and _OWN.fullmatch(reference)
        for _, each in nested(schema)
        for keyword, reference in _references(each)
    )
    plain = has_only_own and not any(
        "$id" in each or "id" in each for _, each in _below(schema, "#")
    )
    lookup = _InDefs(schema) if plain else _anywhere(schema)
    _Check(what, lookup).all_of(schema)
    return schema if plain else _Copy(schema, lookup).schema()


def check_names(fields: Any, what: str) -> None:
    """Raise DefinitionError for a name that no page could show without harm. `what` begins its message."""
    if isinstance(fields, Mapping) and (wrong := RESERVED & fields.keys()):
        raise DefinitionError(
            f"{what}no field may be called {min(wrong)!r}, which means something else in a browser: give it "
            "another name"
        )


def nested(schema: Any, place: str = "#") -> Iterator[tuple[str, Schema]]:
    """Yield a schema and all schemas in it with their places, as JSON pointers. References are not
    followed."""
    if isinstance(schema, dict):
        yield place, schema
        yield from _below(schema, place)


def _below(schema: Schema, place: str) -> Iterator[tuple[str, Schema]]:
    for _, path, inner in _children(schema):
        yield from nested(inner, f"{place}/{path}")


def put_objects(schema: Schema) -> None:
    """Put `{}` where one schema, without those in it, has `[]` in an object's place: PHP writes it so."""
    for keyword in (_MAPS | _SINGLE) & schema.keys():
        value = schema[keyword]
        if value == []:
            schema[keyword] = {}
        elif keyword in _MAPS and isinstance(value, dict):
            schema[keyword] = {name: {} if each == [] else each for name, each in value.items()}


def references(schema: Schema) -> set[str]:
    """Return the values of all `$ref`s in a schema, not followed."""
    return {each["$ref"] for _, each in nested(schema) if "$ref" in each}


def _references(schema: Schema) -> list[tuple[str, Any]]:
    return [(keyword, schema[keyword]) for keyword in _REFERENCES if keyword in schema]


def _children(schema: Schema) -> Iterator[tuple[str, str, Any]]:
    """Yield the keyword, the rest of the pointer, and the schema, for each schema directly in this one. A
    property may be called `$ref`, and a default may have one: neither is a reference."""
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            for name, inner in value.items():
                yield keyword, f"{keyword}/{_escaped(name)}", inner
        elif keyword in _LISTS and isinstance(value, list):
            for at, inner in enumerate(value):
                yield keyword, f"{keyword}/{at}", inner
        elif keyword in _SINGLE:
            yield keyword, keyword, value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class _InDefs:
    """References of a schema that has only `#` and `#/$defs/NAME`: no library is loaded for them."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def target(self, reference: str) -> tuple[Any, _Lookup]:
        return resolve(reference, self._root), self

    def within(self, inner: Any) -> _Lookup:
        return self


def resolve(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the target of `#` or `#/$defs/NAME`. Raises KeyError."""
    return root if reference == "#" else root["$defs"][reference.removeprefix("#/$defs/")]


class _Anywhere:
    """All references that JSON Schema knows, by the rules of the schema's own draft, within its document."""

    def __init__(self, resolver: Any, specification: Any) -> None:
        self._resolver, self._specification = resolver, specification

    def target(self, reference: str) -> tuple[Any, _Lookup]:
        from referencing.exceptions import Unresolvable

        try:
            resolved = self._resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError) as error:
            raise LookupError(reference) from error
        return resolved.contents, _Anywhere(resolved.resolver, self._specification)

    def within(self, inner: Any) -> _Lookup:
        if not isinstance(inner, dict):
            return self
        resource = self._specification.create_resource(inner)
        return _Anywhere(self._resolver.in_subresource(resource), self._specification)


def _anywhere(schema: Schema) -> _Lookup:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012, specification_with

    dialect = schema.get("$schema")
    specification = specification_with(
        dialect if isinstance(dialect, str) else "", default=DRAFT202012
    )
    registry: Any = Registry()
    resource: Any = specification.create_resource(schema)
    return _Anywhere(registry.resolver_with_root(resource), specification)


class _Check:
    """The walk through a schema and everything that it refers to."""

    def __init__(self, what: str, lookup: _Lookup) -> None:
        self._what, self._lookup = what, lookup
        self._schemas: dict[int, str] = {}
        """The place of each schema, by its id."""
        self._same_value: dict[int, list[int]] = {}
        """By a schema's id, the ids of those that have to hold for the same value."""

    def all_of(self, schema: Schema) -> None:
        places = {id(each): place for place, each in nested(schema)}
        open_: list[tuple[str, Any, _Lookup]] = [("#", schema, self._lookup)]
        while open_:
            place, each, lookup = open_.pop()
            if isinstance(each, dict) and id(each) not in self._schemas:
                open_ += self._next(places.get(id(each), place), each, lookup)
        self._no_circles()

    def _next(self, place: str, schema: Schema, lookup: _Lookup) -> list[tuple[str, Any, _Lookup]]:
        self._schemas[id(schema)] = place
        same = self._same_value[id(schema)] = []
        next_schemas: list[tuple[str, Any, _Lookup]] = []
        for keyword in _MAPS & schema.keys():
            check_names(schema[keyword], f"{self._what}{keyword} at {place}: ")
        for keyword, path, inner in _children(schema):
            next_schemas.append((f"{place}/{path}", inner, lookup.within(inner)))
            if keyword in _SAME_VALUE:
                same.append(id(inner))
        for keyword, reference in _references(schema):
            target, beyond = self._target(place, keyword, reference, lookup)
            next_schemas.append((reference, target, beyond))
            same.append(id(target))
        return next_schemas

    def _target(
        self, place: str, keyword: str, reference: Any, lookup: _Lookup
    ) -> tuple[Any, _Lookup]:
        subject = f"{self._what}{keyword} {reference!r} at {place}"
        if not isinstance(reference, str):
            raise DefinitionError(f"{subject} has to be a text, such as '#/$defs/NAME'")
        try:
            target, beyond = lookup.target(reference)
        except LookupError:
            if reference.startswith("#"):
                problem = "leads nowhere in the schema: add what it names to '$defs' of the schema"
            else:
                problem = (
                    "is not in the schema, and nothing is fetched: copy what it names into '$defs'"
                )
            raise DefinitionError(f"{subject} {problem}") from None
        if not isinstance(target, (dict, bool)):
            raise DefinitionError(f"{subject} leads to something that is not a schema")
        return target, beyond

    def _no_circles(self) -> None:
        from graphlib import CycleError, TopologicalSorter

        try:
            TopologicalSorter(self._same_value).prepare()
        except CycleError as error:
            circle = set(error.args[1])
            at = next(place for each, place in self._schemas.items() if each in circle)
            raise DefinitionError(
                f"{self._what}the references at {at} lead in a circle, so no value could be checked: a "
                "schema may refer to itself only from a part, such as a property"
            ) from None


class _Copy:
    """A schema written anew, with all that it refers to in `$defs`."""

    def __init__(self, root: Schema, lookup: _Lookup) -> None:
        self._root, self._lookup = root, lookup
        self._names: dict[int, str] = {}
        self._open: list[tuple[str, Any, _Lookup]] = []

    def schema(self) -> Schema:
        # What is under other words of the root, such as `components`, is there to be referred to.
        words = {k: v for k, v in self._root.items() if k in _WORDS or not isinstance(v, dict)}
        copied = self._copied(words, self._lookup)
        definitions: Schema = {}
        while self._open:
            name, target, lookup = self._open.pop(0)
            definitions[name] = self._copied(target, lookup)
        return {**copied, "$defs": definitions} if definitions else copied

    def _copied(self, schema: Any, lookup: _Lookup) -> Any:
        if not isinstance(schema, dict):
            return schema
        result: Schema = {}
        for keyword, value in schema.items():
            if keyword in _REFERENCES:
                result["$ref"] = self._reference(value, lookup)
            elif keyword in ("$defs", "definitions") or keyword in _NAMES_PLACES:
                continue
            elif keyword in _MAPS and isinstance(value, dict):
                result[keyword] = {
                    name: self._inner(inner, lookup) for name, inner in value.items()
                }
            elif keyword in _LISTS and isinstance(value, list):
                result[keyword] = [self._inner(inner, lookup) for inner in value]
            else:
                result[keyword] = self._inner(value, lookup) if keyword in _SINGLE else value
        return result

    def _inner(self, schema: Any, lookup: _Lookup) -> Any:
        return self._copied(schema, lookup.within(schema))

    def _reference(self, reference: str, lookup: _Lookup) -> str:
        target, beyond = lookup.target(reference)
        if target is self._root:
            return "#"
        if id(target) not in self._names:
            name = self._name(reference)
            self._names[id(target)] = name
            self._open.append((name, target, beyond))
        return f"#/$defs/{self._names[id(target)]}"

    def _name(self, reference: str) -> str:
        last = unquote(reference).rstrip("/#").rpartition("/")[2].lstrip("#")
        name = (
            re.sub(r"[^A-Za-z0-9_.-]", "_", last.replace("~1", "_").replace("~0", "_")) or "schema"
        )
        used, number, free = set(self._names.values()), 2, name
        while free in used:
            free, number = f"{name}_{number}", number + 1
        return free
