"""Paths and payload templates: a state's view of its input, and its additions."""

import re
from typing import Any

from layover.desk.local.aws.states.errors import StateFailed

_PATH = re.compile(r"\$\$?((?:\.\w+)*)")


def read_path(path: str, data: Any, context: Any) -> Any:
    """Return the value at `$.name.name`, or at `$$.name` of the context. Raises StateFailed."""
    value = context if path.startswith("$$") else data
    for name in _names(path):
        if not isinstance(value, dict) or name not in value:
            raise StateFailed("States.ParameterPathFailure", f"The path '{path}' leads nowhere")
        value = value[name]
    return value


def fill_template(template: Any, data: Any, context: Any) -> Any:
    """Return a payload template with each `"name.$"` replaced by the value at its path."""
    if isinstance(template, list):
        return [fill_template(each, data, context) for each in template]
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): read_path(value, data, context)
        if name.endswith(".$")
        else fill_template(value, data, context)
        for name, value in template.items()
    }


def place_result(path: str | None, data: Any, result: Any) -> Any:
    """Return the input with a result at its ResultPath. None leaves the result out."""
    if path is None:
        return data
    return _placed(_names(path), data, result)


def _placed(names: list[str], data: Any, result: Any) -> Any:
    if not names:
        return result
    whole = dict(data) if isinstance(data, dict) else {}
    return {**whole, names[0]: _placed(names[1:], whole.get(names[0]), result)}


def _names(path: str) -> list[str]:
    match = _PATH.fullmatch(path)
    if match is None:
        raise StateFailed("States.Runtime", f"the path '{path}' is not understood here")
    return match[1].split(".")[1:]
