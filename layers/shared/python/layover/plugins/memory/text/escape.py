"""Escapes remembered text for a prompt: data that can neither close its block nor begin a line."""

import json
import re
from typing import Any

_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def escape(text: str) -> str:
    """Return the text with `<` and `>` as entities, and each line break as the two characters `\\n`
    (docs/behaviour.md#escaping)."""
    return _BREAKS.sub(r"\\n", text).replace("<", "&lt;").replace(">", "&gt;")


def escape_value(value: Any) -> str:
    """Return any JSON value on one line: a text bare, the rest as JSON."""
    if isinstance(value, str):
        return escape(value.strip())
    return escape(json.dumps(value, ensure_ascii=False))
