"""The base of all values."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from operator import is_
from typing import Annotated, Any, NoReturn, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, PlainSerializer

from layover.clock import rfc3339

Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""UTC, written as RFC 3339 with microseconds."""

Usd = Annotated[Decimal, PlainSerializer(float, return_type=float, when_used="json")]
"""US dollars, exact inside, a number on the wire."""

Json = Any
"""Any value that JSON can express."""

is_none = partial(is_, None)
"""True for a field that is to be left out as nothing. A turn's records ask it dozens of times, and pay for no
function of ours."""

MAX_DEPTH = 100
"""Levels of nesting of all JSON that enters. Pydantic reads 200, and records and events add their own."""
TOO_DEEP = f"the JSON is nested deeper than {MAX_DEPTH} levels"


def too_deep(value: Json) -> bool:
    """Return whether objects and lists are nested more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [v for v in level if isinstance(v, (dict, list, tuple))]
        if not level:
            return False
        level = [v for each in level for v in (each.values() if isinstance(each, dict) else each)]
    return True


def compact_json(value: Json) -> str:
    """Return one text for equal values: keys sorted, no blanks."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def strict_json(
    text: str, pairs_hook: Callable[[list[tuple[str, Json]]], Json] | None = None
) -> Json:
    """Return a JSON text's value. `pairs_hook` makes an object of its pairs. Raises ValueError for a text
    that is not JSON (NaN, Infinity), and for a number that no float holds (1e999): stored as null, it would
    mean something else to a reader."""
    return json.loads(
        text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=pairs_hook
    )


def all_finite(value: Json) -> bool:
    """Return whether the value has neither NaN nor an infinity. Not for values nested without a bound."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(all_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(all_finite, value))


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"{what} is not a number that JSON has")


_set = object.__setattr__

_SECTIONS = re.compile(r"\s*^(?:Args|Attributes|Raises|Example):$.*", re.MULTILINE | re.DOTALL)


class Described:
    """A class whose JSON schema is described by the prose of its docstring. The lists and the example that
    follow are for readers of Python: the API's document and the models that get a schema do without them."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        described = handler.resolve_ref_schema(schema)
        if "description" in described:
            described["description"] = _SECTIONS.sub("", described["description"])
        return schema


class Value(Described, BaseModel):
    """Frozen; unknown fields are ignored, so that an older reader can read a newer record."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values for some fields, which are not validated.

        Args:
            update: The values, by field.
            deep: Whether the copy shares nothing with this value.
        """
        # The same as pydantic's, in a third of its calls: a turn copies dozens of values.
        if deep or self.__pydantic_private__ or self.__pydantic_extra__ is not None:
            return super().model_copy(update=update, deep=deep)
        changes = update or {}
        copied = object.__new__(type(self))
        _set(copied, "__dict__", {**self.__dict__, **changes})
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.union(changes))
        _set(copied, "__pydantic_private__", None)
        return copied
