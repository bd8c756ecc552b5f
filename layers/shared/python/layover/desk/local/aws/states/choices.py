"""The rules of a Choice."""

import fnmatch
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.aws.states.paths import read_path

Rule = Mapping[str, Any]


def holds(rule: Rule, data: Any, context: Any) -> bool:
    """Return whether a rule is true of the input. Raises StateFailed."""
    if "And" in rule:
        return all(holds(each, data, context) for each in rule["And"])
    if "Or" in rule:
        return any(holds(each, data, context) for each in rule["Or"])
    if "Not" in rule:
        return not holds(rule["Not"], data, context)
    word = next(name for name in rule if name not in ("Variable", "Next", "Comment"))
    if word == "IsPresent":
        return _is_present(rule["Variable"], data, context) is rule[word]
    value = read_path(rule["Variable"], data, context)
    if word in _TESTS:
        return _TESTS[word](value) is rule[word]
    operand = rule[word]
    if word.endswith("Path"):
        word, operand = word.removesuffix("Path"), read_path(operand, data, context)
    return _compare(word, value, operand)


def _is_present(path: str, data: Any, context: Any) -> bool:
    try:
        read_path(path, data, context)
    except StateFailed:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


_TESTS: dict[str, Callable[[Any], bool]] = {
    "IsNull": lambda value: value is None,
    "IsString": lambda value: isinstance(value, str),
    "IsNumeric": _is_number,
    "IsBoolean": lambda value: isinstance(value, bool),
    "IsTimestamp": _is_time,
}
_KINDS: dict[str, Callable[[Any], bool]] = {
    "String": lambda value: isinstance(value, str),
    "Numeric": _is_number,
    "Boolean": lambda value: isinstance(value, bool),
    "Timestamp": _is_time,
}
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda a, b: bool(a == b),
    "LessThan": lambda a, b: bool(a < b),
    "GreaterThan": lambda a, b: bool(a > b),
    "LessThanEquals": lambda a, b: bool(a <= b),
    "GreaterThanEquals": lambda a, b: bool(a >= b),
}


def _compare(word: str, value: Any, operand: Any) -> bool:
    """Return whether a comparison holds. A value of another type than the comparator's makes it false, and
    does not fail the state."""
    if word == "StringMatches":
        pattern = str(operand).replace("[", "[[]")
        return isinstance(value, str) and fnmatch.fnmatchcase(value, pattern)
    for kind, is_kind in _KINDS.items():
        if word.startswith(kind):
            if not is_kind(value) or not is_kind(operand):
                return False
            if kind == "Timestamp":
                value, operand = datetime.fromisoformat(value), datetime.fromisoformat(operand)
            return _SIGNS[word.removeprefix(kind)](value, operand)
    raise StateFailed("States.Runtime", f"the comparator {word} is not understood here")
