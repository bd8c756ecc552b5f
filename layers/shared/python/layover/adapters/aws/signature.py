"""Signature Version 4: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html"""

import hmac
import time
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, urlencode

from layover.adapters.aws.credentials import Credentials

_ALGORITHM = "AWS4-HMAC-SHA256"


class Signer:
    """Signs requests to one service in one region. The key of a day is made once."""

    def __init__(self, service: str, region: str) -> None:
        self._service = service
        self._region = region
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def sign(
        self,
        credentials: Credentials,
        request: tuple[str, str],
        headers: dict[str, str],
        body: bytes,
        now: float,
    ) -> dict[str, str]:
        """The headers (names in lower case, with `host`) and the signature's. `request`:
        method and path, encoded and without a query; `now`: seconds since 1970."""
        method, path = request
        stamp = _stamp(now)
        signed_headers = {**headers, "x-amz-date": stamp}
        if credentials.token:
            signed_headers["x-amz-security-token"] = credentials.token
        names = sorted(signed_headers)
        # A path is encoded once more for its signature, except for S3.
        lines = [
            method,
            _encoded(path),
            "",
            *[f"{n}:{signed_headers[n]}" for n in names],
            "",
        ]
        canonical = "\n".join([*lines, ";".join(names), sha256(body).hexdigest()])
        scope, signature = self._signature(credentials, stamp, canonical)
        signed_headers["authorization"] = (
            f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return signed_headers

    def presign(
        self,
        credentials: Credentials,
        host: str,
        query: dict[str, str],
        lifetime_s: int,
        now: float,
    ) -> str:
        """The URL of a GET of `/` whose query proves the caller's identity, without its `https://`."""
        stamp = _stamp(now)
        parts = {
            **query,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{credentials.key_id}/{self._scope(stamp)}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(lifetime_s),
            "X-Amz-SignedHeaders": "host",
        }
        if credentials.token:
            parts["X-Amz-Security-Token"] = credentials.token
        query_text = urlencode(sorted(parts.items()), quote_via=quote, safe="-_.~")
        canonical = f"GET\n/\n{query_text}\nhost:{host}\n\nhost\n{sha256(b'').hexdigest()}"
        _, signature = self._signature(credentials, stamp, canonical)
        return f"{host}/?{query_text}&X-Amz-Signature={signature}"

    def _scope(self, stamp: str) -> str:
        return f"{stamp[:8]}/{self._region}/{self._service}/aws4_request"

    def _signature(self, credentials: Credentials, stamp: str, canonical: str) -> tuple[str, str]:
        scope = self._scope(stamp)
        text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = self._key_of(stamp[:8], credentials)
        return scope, hmac.digest(key, text.encode(), "sha256").hex()

    def _key_of(self, day: str, credentials: Credentials) -> bytes:
        of_day, of_secret, key = self._key
        if (of_day, of_secret) != (day, credentials.secret):
            key = f"AWS4{credentials.secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (day, credentials.secret, key)
        return key


@lru_cache(64)
def _encoded(path: str) -> str:
    return quote(path, safe="/~")


def _stamp(now: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
