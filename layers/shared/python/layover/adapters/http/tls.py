"""The trust of outgoing connections."""

import ssl
import sys
from functools import cache


@cache
def system_trust() -> ssl.SSLContext:
    """A client's context with the system's roots. All clients share it, because reading 140 roots takes some
    50 ms."""
    if sys.platform != "linux":
        import httpx2

        return httpx2.create_ssl_context()  # Asks the keychain.
    return ssl.create_default_context()
