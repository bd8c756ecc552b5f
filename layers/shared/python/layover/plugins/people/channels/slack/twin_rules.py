"""Slack's rules for blocks and views, as its documentation of Block Kit has them."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

MAX_MESSAGE_BLOCKS = 50
MAX_VIEW_BLOCKS = 100
MAX_MESSAGE = 12_000
"""Characters of all texts of a message together. Slack documents none; it refuses some messages of 11,300 in
blocks of lists, and all of 13,300 (slackapi/bolt-js 2509 and 2867)."""
_MAX_ID = 255
_STYLES = ("primary", "danger")


def check_blocks(blocks: Any) -> list[str]:
    """Return what Slack would find wrong with the blocks of a message."""
    return list(_blocks(blocks, MAX_MESSAGE_BLOCKS, takes_inputs=False))


def is_too_long(blocks: Any) -> bool:
    """Return whether the texts of a message's blocks are too long together."""
    return sum(_units(text) for text in _texts(blocks)) > MAX_MESSAGE


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        yield part["text"]
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _texts(each)


def check_view(view: Any) -> list[str]:
    """Return what Slack would find wrong with a modal view."""
    return list(_view(view))


def _view(view: Any) -> Iterator[str]:
    if not isinstance(view, dict) or view.get("type") != "modal":
        yield "a view is an object of type modal"
        return
    yield from _text(view.get("title"), 24, "title", only_plain=True)
    for name in ("submit", "close"):
        if name in view:
            yield from _text(view[name], 24, name, only_plain=True)
    yield from _size(view.get("private_metadata", ""), 3_000, "private_metadata", at_least=0)
    yield from _size(view.get("callback_id", ""), _MAX_ID, "callback_id", at_least=0)
    yield from _blocks(view.get("blocks"), MAX_VIEW_BLOCKS, takes_inputs=True)
    has_inputs = any(
        isinstance(b, dict) and b.get("type") == "input" for b in view.get("blocks", [])
    )
    if has_inputs and "submit" not in view:
        yield "a view with inputs has submit"


def _blocks(blocks: Any, limit: int, *, takes_inputs: bool) -> Iterator[str]:
    if not isinstance(blocks, list) or not 0 < len(blocks) <= limit:
        yield f"there are 1 to {limit} blocks"
        return
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    if len(set(ids)) < len(ids):
        yield "block_ids are unique"
    for id in ids:
        yield from _size(id, _MAX_ID, "block_id")
    for block in blocks:
        yield from _block(block, takes_inputs)


def _block(block: Json, takes_inputs: bool) -> Iterator[str]:
    match block.get("type"):
        case "header":
            yield from _text(block.get("text"), 150, "header", only_plain=True)
        case "divider":
            return
        case "section":
            yield from _section(block)
        case "context":
            if not 0 < len(block.get("elements", [])) <= 10:
                yield "a context has 1 to 10 elements"
            for each in block.get("elements", []):
                yield from _text(each, 3_000, "context")
        case "actions":
            yield from _actions(block.get("elements", []))
        case "input" if takes_inputs:
            yield from _text(block.get("label"), 2_000, "label", only_plain=True)
            if "hint" in block:
                yield from _text(block["hint"], 2_000, "hint", only_plain=True)
            yield from _element(block.get("element", {}))
        case other:
            yield f"unknown block {other}"


def _section(block: Json) -> Iterator[str]:
    if "text" in block:
        yield from _text(block["text"], 3_000, "section")
    fields = block.get("fields", [])
    if len(fields) > 10 or ("text" not in block and not fields):
        yield "a section has a text or 1 to 10 fields"
    for each in fields:
        yield from _text(each, 2_000, "field")


def _actions(elements: list[Json]) -> Iterator[str]:
    if not 0 < len(elements) <= 25:
        yield "actions have 1 to 25 elements"
    ids = [each.get("action_id") for each in elements]
    if len(set(ids)) < len(ids):
        yield "action_ids are unique in their block"
    for each in elements:
        if each.get("type") != "button":
            yield "only buttons are known here"
            continue
        yield from _size(each.get("action_id"), _MAX_ID, "action_id")
        yield from _text(each.get("text"), 75, "button", only_plain=True)
        yield from _size(each.get("value", "-"), 2_000, "value")
        yield from _size(each.get("url", "-"), 3_000, "url")
        if each.get("style", "primary") not in _STYLES:
            yield "a style is primary or danger"


def _element(element: Json) -> Iterator[str]:
    yield from _size(element.get("action_id"), _MAX_ID, "action_id")
    match element.get("type"):
        case "plain_text_input":
            if not 0 < element.get("max_length", 3_000) <= 3_000:
                yield "max_length is 1 to 3000"
            if len(element.get("initial_value", "")) > element.get("max_length", 3_000):
                yield "initial_value is not longer than max_length"
        case "number_input":
            if type(element.get("is_decimal_allowed")) is not bool:
                yield "a number says whether it may be a decimal"
            for name in ("min_value", "max_value", "initial_value"):
                try:
                    float(element.get(name, "0"))
                except (TypeError, ValueError):
                    yield f"{name} is a number as a text"
        case "static_select" | "multi_static_select":
            options = element.get("options", [])
            if not 0 < len(options) <= 100:
                yield "a choice has 1 to 100 options"
            values = [option.get("value") for option in options]
            if len(set(values)) < len(values):
                yield "values of options are unique"
            for option in options:
                yield from _text(option.get("text"), 75, "option", only_plain=True)
                yield from _size(option.get("value"), 150, "value of an option")
        case other:
            yield f"unknown element {other}"


def _text(text: Any, limit: int, where: str, *, only_plain: bool = False) -> Iterator[str]:
    if not isinstance(text, dict) or text.get("type") not in ("plain_text", "mrkdwn"):
        yield f"{where}: a text object is plain_text or mrkdwn"
        return
    if only_plain and text["type"] != "plain_text":
        yield f"{where}: only plain_text"
    if "verbatim" in text and text["type"] != "mrkdwn":
        yield f"{where}: verbatim is of mrkdwn"
    if "emoji" in text and text["type"] != "plain_text":
        yield f"{where}: emoji is of plain_text"
    yield from _size(text.get("text"), limit, where)


def _size(value: Any, limit: int, where: str, at_least: int = 1) -> Iterator[str]:
    size = _units(value) if isinstance(value, str) else -1
    if not at_least <= size <= limit:
        yield f"{where}: a text of {at_least} to {limit} characters"


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
