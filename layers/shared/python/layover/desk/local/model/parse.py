"""Finds a tool's arguments in a sentence, as far as plain rules can."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

Schema = Mapping[str, Any]

_CODE = r"(?:[A-Z]{1,5}-?\d[\w-]*|\d+-[A-Z0-9][\w-]*)"
_ID = re.compile(rf"#\s*([\w-]*\d[\w-]*)|\b({_CODE})\b|\b(?:order|number|no\.?|id)\s+(\d[\w-]*)")
_DAY = re.compile(
    r"\b(\d{4}-\d\d-\d\d)\b|\b(?:next |this |on )?(today|tonight|tomorrow|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday)\b",
    re.I,
)
_TIME = re.compile(r"\b\d{1,2}:\d\d\b|\b\d{1,2}\s?[ap]m\b", re.I)
_MONEY = re.compile(
    r"[$€£]\s?(\d+(?:[.,]\d{1,2})?)|\b(\d+(?:[.,]\d{1,2})?)\s?(?:[$€£]|(?:euros?|dollars?|pounds?|usd|eur)\b)",
    re.I,
)
_PEOPLE = re.compile(
    r"\b(\d+)\s+(?:people|persons?|guests?|of us)\b|\bfor\s+(\d+)\b(?!\s*[$€£:])", re.I
)
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:[.,]\d+)?(?![\w-])")
_PLACE = re.compile(r"\b(?:in|at|for|of|to|from)\s+((?:[A-Z]\w+)(?:\s+[A-Z]\w+)*)")
_QUOTATION = re.compile(r"[\"“«']([^\"”»']{2,})[\"”»']")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNT_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {
    word: str(n) for n, word in enumerate((*_COUNT_WORDS, "eleven", "twelve"), start=1)
}
_MONEY_NAMES = ("amount", "price", "total", "sum", "cost")
_PEOPLE_NAMES = ("people", "persons", "guests", "party", "seats")
_TEXT_NAMES = ("query", "input", "text", "question", "message", "request", "content", "prompt")


@dataclass(frozen=True)
class ParsedArguments:
    """Arguments, and the names of missing ones that must not be made up (ids, amounts of money)."""

    args: dict[str, Any]
    missing: tuple[str, ...]


def arguments(schema: Schema, text: str, today: date) -> ParsedArguments:
    """Return arguments that fit the schema: what the text says, and harmless values for the rest."""
    parser = _Parser(schema, text, today)
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required_names = schema.get("required") or ()
    chosen_properties = {name: properties[name] for name in properties if name in required_names}
    args = {name: parser.value(name, prop) for name, prop in chosen_properties.items()}
    return ParsedArguments(args, tuple(parser.missing))


class _Parser:
    def __init__(self, schema: Schema, text: str, today: date) -> None:
        self._root = schema
        self._today = today
        self._text = text
        words = re.sub(
            r"\b(" + "|".join(_NUMBER_WORDS) + r")\b",
            lambda m: _NUMBER_WORDS[m.group().lower()],
            text,
            flags=re.I,
        )
        self._words = words
        self._numbers = _without(words, _ID, _DAY, _TIME)
        self.missing: list[str] = []

    def value(self, name: str, prop: Schema) -> Any:
        """Return a value for this property."""
        prop, optional = self._resolve(prop)
        if "const" in prop:
            return prop["const"]
        if prop.get("enum"):
            matches = [v for v in prop["enum"] if str(v).lower() in self._text.lower()]
            return (matches or prop["enum"])[0]
        return self._value_of_type(name, prop, optional)

    def _value_of_type(self, name: str, prop: Schema, optional: bool) -> Any:
        kind = prop.get("type")
        if kind in ("integer", "number"):
            return self._number(name, prop, optional)
        if kind == "boolean":
            return True
        if kind == "array":
            return [self.value(name, prop["items"])] if prop.get("items") else []
        if kind == "object" or "properties" in prop:
            properties, required_names = prop.get("properties") or {}, prop.get("required") or ()
            return {n: self.value(n, p) for n, p in properties.items() if n in required_names}
        return self._string(name, prop, optional)

    def _resolve(self, prop: Schema) -> tuple[Schema, bool]:
        """Return the property without references and unions, and whether it may be null."""
        if "$ref" in prop:
            name = str(prop["$ref"]).rsplit("/", 1)[-1]
            return self._resolve((self._root.get("$defs") or {}).get(name) or {})
        choices = prop.get("anyOf") or prop.get("oneOf")
        if not choices:
            return prop, False
        real = [c for c in choices if c.get("type") != "null"]
        return self._resolve(real[0] if real else {})[0], len(real) < len(choices)

    def _number(self, name: str, prop: Schema, optional: bool) -> int | float | None:
        text = next(self._numbers_for(name), None)
        if text is None:
            if optional:
                return None
            if _is(name, _MONEY_NAMES):
                self.missing.append(name)
            return int(prop.get("minimum") or prop.get("default") or 1)
        number = float(text.replace(",", "."))
        return int(number) if prop.get("type") == "integer" or number.is_integer() else number

    def _numbers_for(self, name: str) -> Iterator[str]:
        if _is(name, _MONEY_NAMES):
            yield from _groups(_MONEY, self._numbers)
        if _is(name, _PEOPLE_NAMES):
            yield from _groups(_PEOPLE, self._numbers)
        yield from (m.group() for m in _NUMBER.finditer(self._numbers))

    def _string(self, name: str, prop: Schema, optional: bool) -> str | None:
        shape = prop.get("format")
        if shape in ("date", "date-time"):
            day = self._day().isoformat()
            return day if shape == "date" else f"{day}T19:00:00Z"
        if shape == "time":
            return "19:00"
        if _is(name, ("id", "number", "code", "reference")):
            return self._id(name, optional)
        if _is(name, _TEXT_NAMES):
            return self._text
        place = next(_groups(_QUOTATION, self._text), None) or next(
            _groups(_PLACE, self._text), None
        )
        return place or (None if optional else self._text)

    def _id(self, name: str, optional: bool) -> str | None:
        match = next(_groups(_ID, self._text), None)
        if match is None:
            match = next((m.group() for m in re.finditer(r"\b\d{3,}\b", self._text)), None)
        if match is None and not optional:
            self.missing.append(name)
            return "unknown"
        return match

    def _day(self) -> date:
        word = next(_groups(_DAY, self._text), "tomorrow").lower()
        if word in _WEEKDAYS:
            ahead = (_WEEKDAYS.index(word) - self._today.weekday()) % 7
            return self._today + timedelta(days=ahead or 7)
        if word in ("today", "tonight"):
            return self._today
        try:
            return date.fromisoformat(word)
        except ValueError:
            return self._today + timedelta(days=1)


def _is(name: str, kinds: tuple[str, ...]) -> bool:
    return bool(set(re.split(r"[_\W]+", name.lower())) & set(kinds))


def _groups(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        yield next(group for group in match.groups() if group)


def _without(text: str, *patterns: re.Pattern[str]) -> str:
    for pattern in patterns:
        text = pattern.sub(" ", text)
    return text
