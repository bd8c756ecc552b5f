"""Requests of Slack's to the API: their signature, and the interaction in them."""

import hmac
import re
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

from layover.values.base import strict_json

MAX_AGE = timedelta(minutes=5)
"""Age up to which a signature counts. A clock may be off in both directions."""
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_MAX_FIELDS = 20


def is_signed(secret: str, timestamp: str, signature: str, body: bytes, now: datetime) -> bool:
    """Return whether Slack has signed a request (version `v0`) within the last five minutes.

    Args:
        secret: The app's signing secret. Nobody has signed by an empty one.
        timestamp: `X-Slack-Request-Timestamp`.
        signature: `X-Slack-Signature`.
        body: The body's bytes as they came.
        now: The time.
    """
    if not secret or not _TIMESTAMP.fullmatch(timestamp):
        return False
    if abs(now.timestamp() - int(timestamp)) > MAX_AGE.total_seconds():
        return False
    base = b"v0:" + timestamp.encode() + b":" + body
    expected = "v0=" + hmac.new(secret.encode(), base, sha256).hexdigest()
    # Bytes, because texts are compared only if they are ASCII.
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))


def interaction_in(text: str) -> dict[str, Any]:
    """Return the interaction in a form; an empty one if it has none. Slack signed it, so nobody is told what
    is wrong with it."""
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
        payload = strict_json(fields.get("payload", ""))
    except (ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}
