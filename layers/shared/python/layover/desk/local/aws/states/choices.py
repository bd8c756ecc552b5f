"""The rules of a Choice."""

from collections.abc import Mapping
from typing import Any

from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.aws.states.paths import read_path

Rule = Mapping[str, Any]


def holds(rule: Rule, data: Any, context: Any) -> bool:
    """Return whether a rule is true of the input. A value of another type than the comparator's makes a
    comparison false, and does not fail the state. Raises StateFailed."""
    match rule:
        case {"And": rules}:
            return all(holds(each, data, context) for each in rules)
        case {"IsPresent": expected, "Variable": path}:
            return _is_present(path, data, context) is expected
        case {"StringEquals": text, "Variable": path}:
            return bool(read_path(path, data, context) == text)
        case {"NumericGreaterThan": bound, "Variable": path}:
            value = read_path(path, data, context)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and value > bound
    raise StateFailed("States.Runtime", f"the rule {dict(rule)} is not understood here")


def _is_present(path: str, data: Any, context: Any) -> bool:
    try:
        read_path(path, data, context)
    except StateFailed:
        return False
    return True
