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
MAX_DEPTH = 32
"""Levels of lists and maps."""
SET_ORDER: dict[str, Callable[[str], Any]] = {"SS": str, "NS": Decimal, "BS": base64.b64decode}
"""Kind of set -> the key that its elements are sorted by."""
_CONTEXT = Context(prec=38, traps=[Inexact, Rounded])
_LARGEST, _SMALLEST = Decimal("9.9999999999999999999999999999999999999E+125"), Decimal("1E-130")


def read_item(document: Any) -> Item:
    """Return an item in its one form. Raises ValidationError."""
    if not isinstance(document, Mapping):
        raise ValidationError("An item must be a map of attribute values")
    return {str(name): read_value(value) for name, value in document.items()}


def read_value(document: Any, depth: int = 0) -> Value:
    """Return a value in its one form. Raises ValidationError."""
    if not isinstance(document, Mapping) or len(document) != 1:
        raise ValidationError(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    ((kind, value),) = document.items()
    reader = _READERS.get(kind)
    if reader is None or depth > MAX_DEPTH:
        raise ValidationError(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
            if reader is None
            else "Nesting Levels have exceeded supported limits"
        )
    return {kind: reader(value, depth)}


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
    """Return what values of one kind are sorted by; None if this kind has no order."""
    ((kind, content),) = value.items()
    if kind == "N":
        return Decimal(content)
    if kind == "B":
        return base64.b64decode(content)
    return content if kind == "S" else None


def size_of(item: Mapping[str, Value]) -> int:
    """Return the bytes of an item, as DynamoDB counts them."""
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


def value_size(value: Value) -> int:
    """Return the bytes of one value."""
    ((kind, content),) = value.items()
    return _SIZES[kind](content)


def _string(value: Any, _: int = 0) -> str:
    if not isinstance(value, str):
        raise ValidationError("A string attribute must be a string")
    return value


def _number(value: Any, _: int = 0) -> str:
    # Nearly all numbers are small and whole, and are in their one form already.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return value.lstrip("0") or "0"
    return text_of(number(value))


def _binary(value: Any, _: int = 0) -> str:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (binascii.Error, TypeError, ValueError):
        raise ValidationError("A binary attribute must be base64") from None


def _boolean(value: Any, _: int) -> bool:
    if not isinstance(value, bool):
        raise ValidationError("A boolean attribute must be true or false")
    return value


def _null(value: Any, _: int) -> bool:
    if value is not True:
        raise ValidationError("Null attribute value types must have the value of true")
    return True


def _set_of(read: Callable[[Any], str], sorted_by: Callable[[str], Any]) -> Callable[..., Any]:
    def reader(value: Any, _: int) -> list[str]:
        if not isinstance(value, list) or not value:
            raise ValidationError(
                "One or more parameter values were invalid: An set may not be empty"
            )
        elements = [read(each) for each in value]
        if len(set(elements)) < len(elements):
            raise ValidationError("Input collection contains duplicates")
        return sorted(elements, key=sorted_by)

    return reader


def _list(value: Any, depth: int) -> list[Value]:
    if not isinstance(value, list):
        raise ValidationError("A list attribute must be a list")
    return [read_value(each, depth + 1) for each in value]


def _map(value: Any, depth: int) -> Item:
    if not isinstance(value, Mapping):
        raise ValidationError("A map attribute must be a map")
    return {str(name): read_value(each, depth + 1) for name, each in value.items()}


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "S": _string,
    "N": _number,
    "B": _binary,
    "BOOL": _boolean,
    "NULL": _null,
    "SS": _set_of(_string, SET_ORDER["SS"]),
    "NS": _set_of(_number, SET_ORDER["NS"]),
    "BS": _set_of(_binary, SET_ORDER["BS"]),
    "L": _list,
    "M": _map,
}


def _number_size(digits: str) -> int:
    return (
        math.ceil(len(digits.strip("-").replace(".", "").strip("0")) / 2)
        + 1
        + digits.startswith("-")
    )


def _binary_size(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=")


_SIZES: dict[str, Callable[[Any], int]] = {
    "S": lambda body: len(body.encode()),
    "N": _number_size,
    "B": _binary_size,
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
    "SS": lambda body: sum(len(each.encode()) for each in body),
    "NS": lambda body: sum(map(_number_size, body)),
    "BS": lambda body: sum(map(_binary_size, body)),
    "L": lambda body: 3 + sum(1 + value_size(each) for each in body),
    "M": lambda body: 3 + len(body) + size_of(body),
}


def dump(item: Item) -> str:
    """Return the item as it is stored."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))
