"""Servers that may work on for a request that was cancelled (docs/behaviour.md#cancel)."""

import re
from urllib.parse import urlsplit

_LARGE = re.compile(
    r"(^|\.)(openai\.com|azure\.(com|us|cn)|googleapis\.com|anthropic\.com|mistral\.ai|deepseek\.com|x\.ai"
    r"|groq\.com|amazonaws\.com(\.cn)?)$",
    re.I,
)
"""Hosts of large providers. None documents that the end of a stream ends the work, and none of them works for
one caller at a time: a plain answer takes less CPU here."""


def may_miss_close(base_url: str) -> bool:
    """Return whether the server behind a base URL may notice a closed connection only while it writes. One of
    the deployer's own then keeps the next request waiting, and a router (OpenRouter) goes on to charge."""
    try:
        host = urlsplit(base_url).hostname
    except ValueError:  # the request's own error says what is wrong with it
        return False
    return bool(host) and not _LARGE.search(host or "")
