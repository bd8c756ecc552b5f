"""The trust of outgoing connections."""

import ssl
from functools import cache


@cache
def system_trust() -> ssl.SSLContext:
    """A client's context with the system's roots, one for all: reading 140 roots takes some 50 ms."""
    return ssl.create_default_context()
