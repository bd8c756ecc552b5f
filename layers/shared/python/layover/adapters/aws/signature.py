"""Signature Version 4 in headers: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html"""

import hmac
import time
from hashlib import sha256
from urllib.parse import quote

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
        """The headers (names in lower case, with `host`) and those that prove who asks. `request`:
        method and path, encoded and without a query; `now`: seconds since 1970."""
        method, path = request
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        signed = {**headers, "x-amz-date": stamp}
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        names = sorted(signed)
        # A path is encoded once more for its signature, but for S3's.
        lines = [method, quote(path, safe="/~"), "", *(f"{n}:{signed[n]}" for n in names), ""]
        canonical = "\n".join([*lines, ";".join(names), sha256(body).hexdigest()])
        scope = f"{stamp[:8]}/{self._region}/{self._service}/aws4_request"
        text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key_of(stamp[:8], credentials), text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return signed

    def _key_of(self, day: str, credentials: Credentials) -> bytes:
        of_day, of_secret, key = self._key
        if (of_day, of_secret) != (day, credentials.secret):
            key = f"AWS4{credentials.secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (day, credentials.secret, key)
        return key
