"""The context of a sealed text as bytes that no other context has."""

import json
from collections.abc import Mapping


def context_bytes(context: Mapping[str, str]) -> bytes:
    """Return the context in one form, whatever the order of its keys."""
    return json.dumps(dict(context), sort_keys=True, separators=(",", ":")).encode()
