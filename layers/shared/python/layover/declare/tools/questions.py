"""Questions of a server in the middle of a call, as forms that a person may be shown
(docs/guides/mcp.md#elicitation). All of it is a stranger's, and is cut, cleaned and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from layover.declare.schemas.references import check_names
from layover.declare.tools.served import plain
from layover.errors import DefinitionError
from layover.values.base import TOO_DEEP, all_finite, too_deep
from layover.values.choices import names_in
from layover.values.text import json_size, sanitise

MAX_MESSAGE = 2_000
"""Characters of what the server says to the person."""
MAX_FORM = 16 * 1024
"""Bytes of the schema that the server wants an answer to."""
MAX_FIELDS = 30
MAX_CHOICES = 100
"""Values of which a field is one."""
_MAX_WORDS = 200
"""Characters of a name, a title or a choice."""
_MAX_URL = 2_000
_DECLINE = "decline"
_FORMATS = ("email", "uri", "date", "date-time")
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "boolean": (),
}


@dataclass(frozen=True)
class Question:
    """A question as a person is shown it. `decline`: the name of the field by which they do not answer."""

    payload: dict[str, Any]
    schema: dict[str, Any]
    decline: str


def question_of(server: str, host: str, params: Any) -> Question:
    """Return the form for what a server asks. `server`: its name in the agent; `host`: of its address. Raises
    DefinitionError, whose message says why nobody can be asked."""
    if not isinstance(params, Mapping) or too_deep(params):
        raise DefinitionError(TOO_DEEP if isinstance(params, Mapping) else "it is not a question")
    message = params.get("message")
    if not isinstance(message, str):
        raise DefinitionError("it has no message")
    payload: dict[str, Any] = {"server": server, "message": plain(sanitise(message), MAX_MESSAGE)}
    if params.get("mode", "form") == "url":
        payload["url"] = _url(params.get("url"))
        fields: dict[str, Any] = {}
        needed: list[str] = []
        words = f"{host} asks you to open this address, and then to send this form."
    elif params.get("mode", "form") == "form":
        fields, needed = _fields(params.get("requestedSchema"))
        words = f"Your answer goes to {host}. Do not give it a password or another secret."
    else:
        raise DefinitionError("its mode is neither form nor url")
    decline = _DECLINE
    while decline in fields:
        decline += "_"
    fields[decline] = {
        "type": "boolean",
        "title": "Do not answer",
        "description": "The server is told that you do not answer, and the call goes on.",
        "default": False,
    }
    schema: dict[str, Any] = {
        "type": "object",
        "description": words,
        "properties": fields,
        "additionalProperties": False,
    }
    if needed:
        # Whoever does not answer fills in nothing.
        declined = {"properties": {decline: {"const": True}}, "required": [decline]}
        schema["anyOf"] = [{"required": needed}, declined]
    return Question(payload, schema, decline)


def _url(url: Any) -> str:
    if (
        not isinstance(url, str)
        or len(url) > _MAX_URL
        or not url.isascii()
        or not url.isprintable()
    ):
        raise DefinitionError("its address is none, or too long")
    try:
        parts = urlsplit(url)
        host, user, _ = parts.hostname, parts.username, parts.port
    except ValueError:
        raise DefinitionError("its address is none") from None
    if parts.scheme != "https" or not host or user is not None or " " in url:
        raise DefinitionError("its address is not https, or has credentials in it")
    return url


def _fields(schema: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a form, and those that it needs."""
    if not isinstance(schema, Mapping) or json_size(schema) > MAX_FORM:
        raise DefinitionError(f"its form is none, or larger than {MAX_FORM // 1024} KB")
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise DefinitionError("its form is not an object's")
    if len(properties) > MAX_FIELDS:
        raise DefinitionError(f"its form has more than {MAX_FIELDS} fields")
    check_names(properties, "its form: ")
    fields = {_words(name): _field(each) for name, each in properties.items()}
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(
        isinstance(n, str) and n in fields for n in required
    ):
        raise DefinitionError("its form needs fields that it does not have")
    return fields, required


def _field(field: Any) -> dict[str, Any]:
    kind = _kind(field)
    if not isinstance(kind, str) or kind not in _BOUNDS:
        raise DefinitionError(
            "its form has a field that is neither a text, a number, a choice nor a yes"
        )
    clean: dict[str, Any] = {"type": kind}
    for name in ("title", "description"):
        if isinstance(field.get(name), str):
            clean[name] = _name(field[name])
    for name in _BOUNDS[kind]:
        if name in field:
            clean[name] = _number(field[name])
    choices = _choices(field) if kind == "string" else None
    if kind == "array":
        choices = _choices(field.get("items"))
        if choices is None:
            raise DefinitionError("its form has a list of what is not a choice")
        clean |= {"items": {"type": "string", **choices}, "uniqueItems": True}
    elif choices is not None:
        clean |= choices
    elif kind == "string" and field.get("format") in _FORMATS:
        clean["format"] = field["format"]
    default = field.get("default")
    if _may_be_default(default, kind, None if choices is None else choices["enum"]):
        clean["default"] = sanitise(default)
    return clean


def _kind(field: Any) -> Any:
    """Return the type of a field: a choice that says none is one of texts."""
    if not isinstance(field, Mapping):
        return None
    return field.get("type", "string" if _listed(field) is not None else None)


def _may_be_default(default: Any, kind: str, choices: list[str] | None) -> bool:
    is_value = _is_one_of(default, kind) and all_finite(default)
    chosen = default if kind == "array" else [default]
    return is_value and (choices is None or all(each in choices for each in chosen))


def _choices(field: Any) -> dict[str, Any] | None:
    """Return the values of which a field is one (`enum`) and, if the server has other words for them, these
    in the same order (`enumNames`); None if it may have any value."""
    choices = _listed(field) if isinstance(field, Mapping) else None
    if choices is None:
        return None
    if not 0 < len(choices) <= MAX_CHOICES:
        raise DefinitionError(f"its form has a choice of nothing, or of more than {MAX_CHOICES}")
    values = [_words(value) for value, _ in choices]
    names = [_name(title) or value for value, (_, title) in zip(values, choices, strict=True)]
    # Choices that read alike are told apart only by their values.
    is_clear = names != values and len(set(names)) == len(names)
    return {"enum": values, **({"enumNames": names} if is_clear else {})}


def _listed(field: Mapping[str, Any]) -> list[tuple[Any, Any]] | None:
    """Return a field's choices as the server has them, each with its title; None: it lists none."""
    if "enum" in field:
        values = field["enum"] if isinstance(field["enum"], list) else []
        titles = names_in(field, len(values)) or [None] * len(values)
        return [*zip(values, titles, strict=True)]
    lists = (field.get(name) for name in ("oneOf", "anyOf"))
    titled = next((each for each in lists if isinstance(each, list)), None)
    if titled is None:
        return None
    each_of = [each if isinstance(each, Mapping) else {} for each in titled]
    return [(each.get("const"), each.get("title")) for each in each_of]


def _name(text: Any) -> str:
    return plain(sanitise(text), _MAX_WORDS) if isinstance(text, str) else ""


def _words(text: Any) -> str:
    """Return a name or a choice. It goes back to the server as it is, so it is refused where a person would
    read another one."""
    if not isinstance(text, str) or not text or plain(sanitise(text), _MAX_WORDS) != text:
        raise DefinitionError("its form has a name or a choice that cannot be shown as it is")
    return text


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not all_finite(value):
        raise DefinitionError("its form has a bound that is not a number")
    return value


def _is_one_of(value: Any, kind: str) -> bool:
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str) and len(value) <= MAX_MESSAGE
        case "array":
            return isinstance(value, Sequence) and not isinstance(value, str)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)
