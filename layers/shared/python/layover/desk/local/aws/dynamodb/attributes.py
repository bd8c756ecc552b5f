"""Attribute values as they travel: `{"S": "text"}`. They are read once into one form (numbers without leading
and trailing zeros, sets in order), so that equal values are equal documents and conditions can compare
them."""

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, Inexact, Rounded
from typing import Any

from layover.desk.local.aws.dynamodb.errors import ValidationError

Value = dict[str, Any]
Item = dict[str, Value]

MAX_ITEM = 400 * 1024
"""Bytes of an item, its attributes' names included."""
_CONTEXT = Context(prec=38, traps=[Inexact, Rounded])
_LARGEST, _SMALLEST = Decimal("9.9999999999999999999999999999999999999E+125"), Decimal("1E-130")


def read_item(document: Any) -> Item:
    """Return an item in its one form. Raises ValidationError."""
    if not isinstance(document, Mapping):
        raise ValidationError("An item must be a map of attribute values")
    return {str(name): read_value(value) for name, value in document.items()}


def read_value(document: Any) -> Value:
    """Return a value in its one form. Raises ValidationError, also for kinds that the journal does not store:
    maps, nulls, sets of numbers and of bytes."""
    if (
        not isinstance(document, Mapping)
        or len(document) != 1
        or not document.keys() <= _READERS.keys()
    ):
        raise ValidationError(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    ((kind, value),) = document.items()
    return {kind: _READERS[kind](value)}


def number(value: Any) -> Decimal:
    """Return a number of at most 38 digits. Raises ValidationError."""
    try:
        parsed_number = _CONTEXT.create_decimal(value) if isinstance(value, str) else None
    except (Inexact, Rounded):
        text = "Attempting to store more than 38 significant digits in a Number"
        raise ValidationError(text) from None
    except DecimalException:
        parsed_number = None
    if parsed_number is None or not parsed_number.is_finite():
        raise ValidationError(f"The parameter cannot be converted to a numeric value: {value}")
    if parsed_number and not _SMALLEST <= abs(parsed_number) <= _LARGEST:
        raise ValidationError("Number overflow. Attempting to store a number out of range")
    return parsed_number


def text_of(value: Decimal) -> str:
    """Return a number as DynamoDB returns it."""
    return format(value.normalize(_CONTEXT), "f") if value else "0"


def sort_key(value: Value) -> Any:
    """Return what values of one kind are compared by; None if this kind has no order."""
    ((kind, content),) = value.items()
    return Decimal(content) if kind == "N" else content if kind == "S" else None


def size_of(item: Mapping[str, Value]) -> int:
    """Return the bytes of an item, as DynamoDB counts them."""
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


def value_size(value: Value) -> int:
    """Return the bytes of one value."""
    ((kind, content),) = value.items()
    return _SIZES[kind](content)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValidationError("A string attribute must be a string")
    return value


def _number(value: Any) -> str:
    # Nearly all numbers are small and whole, and are in their one form already.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return value.lstrip("0") or "0"
    return text_of(number(value))


def _binary(value: Any) -> str:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (binascii.Error, TypeError, ValueError):
        raise ValidationError("A binary attribute must be base64") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValidationError("A boolean attribute must be true or false")
    return value


def _set(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValidationError("One or more parameter values were invalid: An set may not be empty")
    if len({*map(_string, value)}) < len(value):
        raise ValidationError("Input collection contains duplicates")
    return sorted(value)


def _list(value: Any) -> list[Value]:
    if not isinstance(value, list):
        raise ValidationError("A list attribute must be a list")
    return [read_value(each) for each in value]


_READERS: dict[str, Callable[[Any], Any]] = {
    "S": _string,
    "N": _number,
    "B": _binary,
    "BOOL": _boolean,
    "SS": _set,
    "L": _list,
}


def _number_size(digits: str) -> int:
    return (
        math.ceil(len(digits.strip("-").replace(".", "").strip("0")) / 2)
        + 1
        + digits.startswith("-")
    )


_SIZES: dict[str, Callable[[Any], int]] = {
    "S": lambda body: len(body.encode()),
    "N": _number_size,
    "B": lambda body: len(body) * 3 // 4 - body.count("="),
    "BOOL": lambda _: 1,
    "SS": lambda body: sum(len(each.encode()) for each in body),
    "L": lambda body: 3 + sum(1 + value_size(each) for each in body),
}


def dump(item: Item) -> str:
    """Return the item as it is stored."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))
