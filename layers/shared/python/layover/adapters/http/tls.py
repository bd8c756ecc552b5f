"""The trust of outgoing connections."""

import ssl
import sys
from functools import cache

from layover.errors import ConfigurationError

_NO_ROOTS = (
    "no root certificates are where SSL_CERT_FILE and SSL_CERT_DIR say, or where OpenSSL looks without "
    "them: unset the variable that names what is not there, or have it name a file with roots"
)


@cache
def system_trust() -> ssl.SSLContext:
    """A client's context with the system's roots. All clients share it, because reading 140 roots takes some
    50 ms. Raises ConfigurationError where there are none: else each server would be said to be wrong."""
    if sys.platform != "linux":
        import httpx2

        try:
            return httpx2.create_ssl_context()  # Asks the keychain.
        except OSError as error:
            raise ConfigurationError(_NO_ROOTS) from error
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    raise ConfigurationError(_NO_ROOTS)
