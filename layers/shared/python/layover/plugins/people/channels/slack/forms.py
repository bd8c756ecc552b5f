"""Forms in Slack: a reason, and the answer to a call that waits for one, by the JSON schema of the answer.

A field of an answer becomes an input of its kind. What no input can express is written as JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from layover.approvals.decide import Verdict
from layover.errors import DecisionInvalid
from layover.plugins.people.channels.slack.block_kit import (
    FORM,
    MAX_FIELD,
    MAX_TEXT,
    MAX_TITLE,
    CallRef,
    Json,
    plain,
)
from layover.plugins.people.channels.slack.shown import show_facts
from layover.plugins.people.words import denial_word, headline, value_text
from layover.values.base import compact_json, strict_json
from layover.values.channels import Channels, Notice
from layover.values.choices import names_in
from layover.values.runs.run import SuspensionKind

REASON = "reason"
"""The block of the reason."""
DATA = "data"
"""The block of an answer that is one value; `data.NAME` is that of one of its fields."""
INPUT = "value"
"""The input in each block."""
MAX_OPTIONS = 100
MAX_OPTION = 75
"""Characters of an option."""
MAX_INPUTS = 50
MAX_NAME = 200
"""Characters of a field's name, which is a part of a block's id."""
MAX_ERROR = 300
_MAX_NUMBER = 16
_MAX_REFS = 10
_ELSEWHERE = "Not all of this request fits here. The console shows it whole: decide there."
_VERDICTS = {
    Verdict.APPROVE: ("Approve", "Approve"),
    Verdict.RESUME: ("Answer", "Send"),
}
"""Title and button of the forms, apart from that of a denial."""


class Kind(Enum):
    """The input that takes a field."""

    TEXT = auto()
    NUMBER = auto()
    CHOICE = auto()
    CHOICES = auto()
    JSON = auto()


@dataclass(frozen=True)
class FormField:
    """One input of an answer. `name`: of the field; None: the input is the whole answer."""

    name: str | None
    kind: Kind
    schema: Json
    options: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    """The words for the options, in their order."""
    is_required: bool = True
    takes_null: bool = False

    @property
    def block_id(self) -> str:
        """The name of its block in the form."""
        return DATA if self.name is None else f"{DATA}.{self.name}"


class FormErrors(Exception):
    """A form that came back does not say what it has to. `errors`: what is wrong, by block."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("the form has errors")
        self.errors = dict(errors)


def form_view(
    notice: Notice, ref: CallRef, verdict: Verdict, channels: Channels | None = None
) -> Json:
    """Return the form by which a person gives a verdict on a call: what it is about, and its inputs. Where
    not all of that fits, it has no input, and leads to the console."""
    table = show_facts(notice, channels)
    if not table.is_whole:
        return text_view(_ELSEWHERE)
    no = denial_word(notice.call.kind)
    title, submit = _VERDICTS.get(verdict, (no, no))
    blocks: list[Json] = [{"type": "section", "text": plain(headline(notice, channels))}]
    blocks += table.blocks
    if verdict is Verdict.RESUME:
        blocks += [_input(each) for each in fields_of(notice.call.resume_schema)]
    if needs_reason(notice, verdict):
        blocks.append(_reason())
    return {
        "type": "modal",
        "callback_id": FORM,
        "private_metadata": ref.encode(verdict=verdict.value),
        "title": plain(title, MAX_TITLE),
        "submit": plain(submit, MAX_TITLE),
        "close": plain("Cancel", MAX_TITLE),
        "blocks": blocks,
    }


def needs_reason(notice: Notice, verdict: Verdict) -> bool:
    """Return whether the form asks for a reason: an answer needs one if the call's rule says so, and the
    other verdicts have a form only for it."""
    rule = notice.rule or notice.call.approval
    is_answer = verdict is Verdict.RESUME and notice.call.kind is SuspensionKind.INPUT
    return not is_answer or (rule is not None and rule.reason_required)


def text_view(text: str) -> Json:
    """Return a form with nothing to fill in, that says something to the one person who sees it."""
    return {
        "type": "modal",
        "title": plain("Layover", MAX_TITLE),
        "close": plain("Close", MAX_TITLE),
        "blocks": [{"type": "section", "text": plain(text)}],
    }


def fields_of(schema: Json) -> list[FormField]:
    """Return the inputs of an answer of this schema, in its order."""
    root, _ = _resolve(schema, schema)
    properties = root.get("properties")
    if root.get("type") != "object" or not isinstance(properties, dict) or not properties:
        return [_field(None, schema, schema, is_required=True)]
    if len(properties) > MAX_INPUTS or any(not 0 < len(name) <= MAX_NAME for name in properties):
        return [FormField(None, Kind.JSON, root)]
    required = root.get("required")
    names = required if isinstance(required, list) else []
    return [
        _field(name, each, schema, is_required=name in names) for name, each in properties.items()
    ]


def read_answer(schema: Json, values: Mapping[str, Any]) -> Any:
    """Return the answer in a form's values (`view.state.values`). Raises FormErrors."""
    answer: Json = {}
    errors: dict[str, str] = {}
    for each in fields_of(schema):
        value = _input_of(values, each.block_id)
        try:
            if (read := _read(each, value)) is not None:
                answer[each.name or ""] = read[0]
            elif each.is_required and each.takes_null:
                answer[each.name or ""] = None
            elif each.is_required:
                errors[each.block_id] = "This is needed."
        except ValueError as error:
            errors[each.block_id] = str(error)[:MAX_ERROR]
        if each.name is None and not errors:
            return answer.get("")
    if errors:
        raise FormErrors(errors)
    return answer


def read_reason(values: Mapping[str, Any]) -> str | None:
    """Return the reason in a form's values; None: it has none."""
    text = _input_of(values, REASON).get("value")
    return text if isinstance(text, str) and text.strip() else None


def errors_by_block(error: DecisionInvalid, values: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with a decision, each where the person can correct it: Slack takes errors of
    blocks that the form has, and of no others. Empty: the form has no input."""
    blocks = list(values)
    errors: dict[str, str] = {}
    for each in error.errors or [{"loc": (), "msg": error.message}]:
        path = [str(step) for step in each["loc"][1:3]]
        candidates = (".".join(path), *path[:1])
        block = next((name for name in candidates if name in values), blocks[0] if blocks else None)
        if block is not None:
            errors.setdefault(block, str(each["msg"])[:MAX_ERROR])
    return errors


def _field(name: str | None, schema: Any, root: Json, *, is_required: bool) -> FormField:
    own, takes_null = _resolve(schema, root)
    kind, options = _kind(own, root)
    return FormField(
        name, kind, own, options=options, names=_names(own, options, root),
        is_required=is_required, takes_null=takes_null,
    )  # fmt: skip


def _names(schema: Json, options: tuple[Any, ...], root: Json) -> tuple[str, ...]:
    """Return the words for the options of a field, or of a list's items: those of the schema, if it has
    them."""
    own = schema if "enumNames" in schema else _resolve(schema.get("items"), root)[0]
    names = names_in(own, len(options))
    return tuple(map(value_text, options)) if names is None else tuple(map(str, names))


def _kind(schema: Json, root: Json) -> tuple[Kind, tuple[Any, ...]]:
    if options := _options(schema):
        return (Kind.CHOICE, options) if len(options) <= MAX_OPTIONS else (Kind.JSON, ())
    match schema.get("type"):
        case "boolean":
            return Kind.CHOICE, (True, False)
        case "string":
            return Kind.TEXT, ()
        case "integer" | "number":
            return Kind.NUMBER, ()
        case "array":
            items, _ = _resolve(schema.get("items"), root)
            options = _options(items)
            return (Kind.CHOICES, options) if 0 < len(options) <= MAX_OPTIONS else (Kind.JSON, ())
        case _:
            return Kind.JSON, ()


def _options(schema: Json) -> tuple[Any, ...]:
    if "const" in schema:
        return (schema["const"],)
    options = schema.get("enum")
    return tuple(options) if isinstance(options, list) else ()


def _resolve(schema: Any, root: Json) -> tuple[Json, bool]:
    """Return a schema without a reference to a part of its document and without null, and whether it took
    null. Titles and descriptions that stand next to a reference are kept."""
    takes_null = False
    own = schema if isinstance(schema, dict) else {}
    for _ in range(_MAX_REFS):
        rest = {name: own[name] for name in ("title", "description", "default") if name in own}
        choices = own.get("anyOf") or own.get("oneOf")
        if isinstance(reference := own.get("$ref"), str):
            own = {**_part(root, reference), **rest}
        elif isinstance(choices, list):
            only = _only_choice(choices)
            if only is None:
                return own, takes_null
            takes_null = takes_null or len(choices) > 1
            own = {**only, **rest}
        elif isinstance(parts := own.get("allOf"), list) and len(parts) == 1 and parts[0]:
            own = {**parts[0], **rest} if isinstance(parts[0], dict) else {}
        elif isinstance(types := own.get("type"), list):
            return {**own, "type": _without_null(types)}, takes_null or "null" in types
        else:
            break
    return own, takes_null


def _without_null(types: list[Any]) -> Any:
    names = [name for name in types if name != "null"]
    return names[0] if len(names) == 1 else names


def _only_choice(choices: list[Any]) -> Json | None:
    """Return the one choice that is not null; None if there are several, or what it is cannot be read."""
    others = [each for each in choices if each != {"type": "null"}]
    return others[0] if len(others) == 1 and isinstance(others[0], dict) else None


def _part(root: Json, reference: str) -> Json:
    part: Any = root
    if not reference.startswith("#/"):
        return {}
    for name in reference[2:].split("/"):
        name = name.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, dict) else None
    return part if isinstance(part, dict) else {}


def _input(each: FormField) -> Json:
    title = each.schema.get("title")
    name = title if isinstance(title, str) and title else each.name or "Answer"
    block: Json = {
        "type": "input",
        "block_id": each.block_id,
        "label": plain(name, MAX_FIELD),
        # Slack takes no empty choice from an input that is not optional.
        "optional": not each.is_required or each.takes_null or each.kind is Kind.CHOICES,
        "element": _element(each),
    }
    hint = each.schema.get("description")
    if each.kind is Kind.JSON:
        hint = f"{hint + ' ' if isinstance(hint, str) else ''}As JSON: {compact_json(each.schema)}"
    if isinstance(hint, str) and hint:
        block["hint"] = plain(hint, MAX_FIELD)
    return block


def _element(each: FormField) -> Json:
    default = each.schema.get("default")
    element: Json = {"action_id": INPUT}
    if each.kind in (Kind.CHOICE, Kind.CHOICES):
        options = [_option(n, text) for n, text in enumerate(each.names)]
        kind = "static_select" if each.kind is Kind.CHOICE else "multi_static_select"
        return {**element, "type": kind, "options": options}
    if each.kind is Kind.NUMBER:
        return element | _number_input(each)
    size = each.schema.get("maxLength")
    limit = min(size, MAX_TEXT) if type(size) is int and size > 0 else MAX_TEXT
    element |= {"type": "plain_text_input", "max_length": limit}
    if each.kind is Kind.JSON or limit > MAX_NAME:
        element["multiline"] = True
    if each.kind is Kind.TEXT and isinstance(default, str) and 0 < len(default) <= limit:
        element["initial_value"] = default
    return element


def _number_input(each: FormField) -> Json:
    element: Json = {
        "type": "number_input",
        "is_decimal_allowed": each.schema.get("type") != "integer",
    }
    limits = {"min_value": "minimum", "max_value": "maximum", "initial_value": "default"}
    for name, rule in limits.items():
        value = each.schema.get(rule)
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            # Slack takes no exponent, and no number without one is this long.
            element |= {name: text} if "e" not in text and len(text) <= _MAX_NUMBER else {}
    return element


def _option(n: int, text: str) -> Json:
    """Return an option. It comes back as its number: a value may be longer than Slack takes, or no text."""
    option = text if len(text) <= MAX_OPTION // 2 else f"{n + 1}. {text}"
    return {"text": plain(option, MAX_OPTION), "value": str(n)}


def _reason() -> Json:
    element = {
        "type": "plain_text_input",
        "action_id": INPUT,
        "multiline": True,
        "max_length": MAX_TEXT,
    }
    return {
        "type": "input",
        "block_id": REASON,
        "label": plain("Reason"),
        "optional": False,
        "element": element,
    }


def _input_of(values: Mapping[str, Any], block_id: str) -> Json:
    block = values.get(block_id)
    value = block.get(INPUT) if isinstance(block, dict) else None
    return value if isinstance(value, dict) else {}


def _read(each: FormField, value: Json) -> tuple[Any] | None:
    """Return what a person has put in, if anything. Raises ValueError, with words for the person."""
    if each.kind is Kind.CHOICE:
        option = value.get("selected_option")
        return None if not isinstance(option, dict) else (_chosen(each, option),)
    if each.kind is Kind.CHOICES:
        options = value.get("selected_options")
        picks = [o for o in options if isinstance(o, dict)] if isinstance(options, list) else []
        # An empty list is an answer where one is needed.
        return ([_chosen(each, o) for o in picks],) if picks or each.is_required else None
    text = value.get("value")
    if not isinstance(text, str) or not text:
        return None
    if each.kind is Kind.TEXT:
        return (text,)
    return (_number(each, text),) if each.kind is Kind.NUMBER else (_json(text),)


def _chosen(each: FormField, option: Json) -> Any:
    number = str(option.get("value"))
    if number not in map(str, range(len(each.options))):
        raise ValueError("This is not one of the options.")
    return each.options[int(number)]


def _number(each: FormField, text: str) -> int | float:
    try:
        if each.schema.get("type") == "integer":
            return int(text)
        number = float(text)
    except ValueError:
        raise ValueError("This is not a number that the field takes.") from None
    if not math.isfinite(number):
        raise ValueError("This is not a number that the field takes.")
    return int(number) if number.is_integer() and "." not in text else number


def _json(text: str) -> Any:
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        raise ValueError("This is not JSON. A text needs quotation marks.") from None
