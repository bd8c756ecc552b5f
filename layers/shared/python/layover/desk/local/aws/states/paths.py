"""Paths, payload templates and intrinsic functions: a state's view of its input, and its additions."""

import base64
import copy
import hashlib
import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from layover.desk.local.aws.states.errors import StateFailed

_STEP = re.compile(
    r"\.(?P<name>[^.\[\]()]+)|\[(?P<index>-?\d+)\]|\['(?P<quoted>[^']+)'\]|(?P<every>\[\*\])"
)
_ARGUMENT = re.compile(r"\s*(?:'((?:\\.|[^'\\])*)'|(-?\d+(?:\.\d+)?)|(true|false|null))\s*")
_CALL = re.compile(r"\s*(States\.\w+)\(")
_PATH = re.compile(r"\s*(\$\$?[^,()]*)")


def read_path(path: str, data: Any, context: Any) -> Any:
    """Return the value at `$...`, or at `$$...` of the context. Raises StateFailed."""
    root, steps = (context, path[2:]) if path.startswith("$$") else (data, path[1:])
    values, at, many = [root], 0, False
    while at < len(steps):
        match = _STEP.match(steps, at)
        if match is None:
            raise StateFailed("States.Runtime", f"the path '{path}' is not understood here")
        at = match.end()
        many = many or match["every"] is not None
        values = [each for value in values for each in _step(match, value)]
        if not values and not many:
            raise StateFailed("States.ParameterPathFailure", f"The path '{path}' leads nowhere")
    return values if many else values[0]


def _step(match: re.Match[str], value: Any) -> list[Any]:
    if match["every"]:
        return list(value.values()) if isinstance(value, dict) else list(value or ())
    if match["index"]:
        index = int(match["index"])
        return (
            [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
        )
    name = match["name"] or match["quoted"]
    return [value[name]] if isinstance(value, dict) and name in value else []


def evaluate(expression: str, data: Any, context: Any) -> Any:
    """Return the value of a path or an intrinsic function. Raises StateFailed."""
    if not expression.startswith("States."):
        return read_path(expression, data, context)
    value, end = _call_function(expression, 0, data, context)
    if expression[end:].strip():
        raise StateFailed("States.IntrinsicFailure", f"{expression} is not understood")
    return value


def fill_template(template: Any, data: Any, context: Any) -> Any:
    """Return a payload template with each `"name.$"` replaced by the value at its path."""
    if isinstance(template, list):
        return [fill_template(each, data, context) for each in template]
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): evaluate(value, data, context)
        if name.endswith(".$")
        else fill_template(value, data, context)
        for name, value in template.items()
    }


def place_result(path: str | None, data: Any, result: Any) -> Any:
    """Return the input with a result at its ResultPath. None leaves the result out."""
    if path is None:
        return data
    names = [match["name"] or match["quoted"] for match in _STEP.finditer(path[1:])]
    if not names:
        return result
    whole = copy.copy(data) if isinstance(data, dict) else {}
    here = whole
    for name in names[:-1]:
        inner = here.get(name)
        here[name] = copy.copy(inner) if isinstance(inner, dict) else {}
        here = here[name]
    here[names[-1]] = result
    return whole


def _call_function(text: str, at: int, data: Any, context: Any) -> tuple[Any, int]:
    """Return the value of the function call that begins at `at`, and the place where it ends."""
    match = _CALL.match(text, at)
    if match is None or match[1] not in _FUNCTIONS:
        raise StateFailed("States.IntrinsicFailure", f"{text} is not understood")
    at, arguments = match.end(), []
    while not text[at:].lstrip().startswith(")"):
        value, at = _argument(text, at, data, context)
        arguments.append(value)
        rest = text[at:].lstrip()
        if not rest.startswith((",", ")")):
            raise StateFailed("States.IntrinsicFailure", f"{text} is not understood")
        at = len(text) - len(rest) + rest.startswith(",")
    try:
        value = _FUNCTIONS[match[1]](*arguments)
    except (TypeError, ValueError, LookupError) as error:
        raise StateFailed("States.IntrinsicFailure", f"{match[1]}: {error}") from error
    return value, text.index(")", at) + 1


def _argument(text: str, at: int, data: Any, context: Any) -> tuple[Any, int]:
    if _CALL.match(text, at):
        return _call_function(text, at, data, context)
    if match := _ARGUMENT.match(text, at):
        string, number, word = match.groups()
        if string is not None:
            return re.sub(r"\\(.)", r"\1", string), match.end()
        return json.loads(number or word), match.end()
    if match := _PATH.match(text, at):
        return read_path(match[1].strip(), data, context), match.end()
    raise StateFailed("States.IntrinsicFailure", f"{text} is not understood")


def _format(template: str, *arguments: Any) -> str:
    parts = template.split("{}")
    if len(parts) != len(arguments) + 1:
        raise ValueError("as many arguments as {} are needed")
    texts = [each if isinstance(each, str) else json.dumps(each) for each in arguments]
    return "".join(part + text for part, text in zip(parts, [*texts, ""], strict=True))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "States.Format": _format,
    "States.StringToJson": json.loads,
    "States.JsonToString": lambda value: json.dumps(value, separators=(",", ":")),
    "States.JsonMerge": lambda one, other, _deep=False: {**one, **other},
    "States.Array": lambda *values: list(values),
    "States.ArrayLength": len,
    "States.ArrayContains": lambda values, value: value in values,
    "States.ArrayGetItem": lambda values, index: values[index],
    "States.ArrayRange": lambda first, last, step: list(range(first, last + 1, step)),
    "States.ArrayUnique": lambda values: [v for i, v in enumerate(values) if v not in values[:i]],
    "States.Base64Encode": lambda text: base64.b64encode(text.encode()).decode(),
    "States.Base64Decode": lambda text: base64.b64decode(text).decode(),
    "States.Hash": lambda text, kind: hashlib.new(kind.replace("-", ""), text.encode()).hexdigest(),
    "States.MathAdd": lambda one, other: one + other,
    "States.StringSplit": lambda text, marks: [
        each for each in re.split(f"[{re.escape(marks)}]", text) if each
    ],
    "States.UUID": lambda: str(uuid.uuid4()),
}
