"""Attribute values, as they travel: `{"S": "text"}`. Read once into one form of each, equal values are equal
documents: numbers without zeros around them, sets in order."""

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, Inexact, Rounded
from typing import Any

from layover.local.aws.dynamodb.errors import ValidationError

Value = dict[str, Any]
Item = dict[str, Value]

MAX_ITEM = 400 * 1024
"""Bytes of an item, its attributes' names included."""
MAX_DEPTH = 32
"""Levels of lists and maps."""
SET_ORDER: dict[str, Callable[[str], Any]] = {"SS": str, "NS": Decimal, "BS": base64.b64decode}
"""Kind of set -> what its elements are in order of."""
_CONTEXT = Context(prec=38, traps=[Inexact, Rounded])
_LARGEST, _SMALLEST = Decimal("9.9999999999999999999999999999999999999E+125"), Decimal("1E-130")


def read_item(document: Any) -> Item:
    """An item in its one form. Raises ValidationError."""
    if not isinstance(document, Mapping):
        raise ValidationError("An item must be a map of attribute values")
    return {str(name): read_value(value) for name, value in document.items()}


def read_value(document: Any, depth: int = 0) -> Value:
    """A value in its one form. Raises ValidationError."""
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
    """A number of at most 38 digits. Raises ValidationError."""
    try:
        found = _CONTEXT.create_decimal(value) if isinstance(value, str) else None
    except (Inexact, Rounded):
        text = "Attempting to store more than 38 significant digits in a Number"
        raise ValidationError(text) from None
    except DecimalException:
        found = None
    if found is None or not found.is_finite():
        raise ValidationError(f"The parameter cannot be converted to a numeric value: {value}")
    if found and not _SMALLEST <= abs(found) <= _LARGEST:
        raise ValidationError("Number overflow. Attempting to store a number out of range")
    return found


def text_of(found: Decimal) -> str:
    """A number as DynamoDB gives it back."""
    return format(found.normalize(_CONTEXT), "f") if found else "0"


def ordered(value: Value) -> Any:
    """Return the sort key among values of one kind; None where this kind has no order."""
    ((kind, held),) = value.items()
    if kind == "N":
        return Decimal(held)
    if kind == "B":
        return base64.b64decode(held)
    return held if kind == "S" else None


def size_of(item: Mapping[str, Value]) -> int:
    """Bytes, as DynamoDB counts them."""
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


def value_size(value: Value) -> int:
    """Bytes of one value."""
    ((kind, held),) = value.items()
    return _SIZES[kind](held)


def _string(value: Any, _: int = 0) -> str:
    if not isinstance(value, str):
        raise ValidationError("A string attribute must be a string")
    return value


def _number(value: Any, _: int = 0) -> str:
    # By far the most numbers are small and whole, in their one form already.
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


def _number_size(held: str) -> int:
    return (
        math.ceil(len(held.strip("-").replace(".", "").strip("0")) / 2) + 1 + held.startswith("-")
    )


def _binary_size(held: str) -> int:
    return len(held) * 3 // 4 - held.count("=")


_SIZES: dict[str, Callable[[Any], int]] = {
    "S": lambda held: len(held.encode()),
    "N": _number_size,
    "B": _binary_size,
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
    "SS": lambda held: sum(len(each.encode()) for each in held),
    "NS": lambda held: sum(map(_number_size, held)),
    "BS": lambda held: sum(map(_binary_size, held)),
    "L": lambda held: 3 + sum(1 + value_size(each) for each in held),
    "M": lambda held: 3 + len(held) + size_of(held),
}


def dumped(item: Item) -> str:
    """As it is stored."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"))
