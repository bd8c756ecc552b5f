"""Token endpoints of services (`ports.grants.TokenEndpoints`): a form goes out, a few fields come back."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from layover.adapters.http.client import Client, MakeClient, Response
from layover.adapters.http.request import InvalidURL, join_url
from layover.errors import RetryableError
from layover.ports.grants import INVALID_RESPONSE, TokenRefused

TIMEOUT_S = 10.0
"""Seconds for the whole answer. A user's tools wait for it."""
MAX_ANSWER = 256 * 1024
"""Bytes of an answer."""
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class HttpTokenEndpoints:
    """`TokenEndpoints` over HTTPS. No redirect is followed, and nothing that a service says is logged."""

    def __init__(self, make_client: MakeClient) -> None:
        self._make_client = make_client
        self._client: Client | None = None

    async def ask(
        self, url: str, form: Mapping[str, str], client: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """See `ports.grants.TokenEndpoints`."""
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            # GitHub answers with a form otherwise.
            "accept": "application/json",
        }
        if client is not None:
            # RFC 6749, 2.3.1: both are encoded as in a form first.
            pair = ":".join(quote(each, safe="") for each in client)
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status, body, kind = await self._post(url, headers, urlencode(form).encode())
        except InvalidURL:
            raise
        except OSError as error:  # also a timeout
            raise RetryableError(f"{_host(url)} did not answer: {type(error).__name__}") from error
        if status in (408, 425, 429) or status >= 500:
            raise RetryableError(f"{_host(url)} answered with status {status}")
        fields = _fields(body, kind)
        is_good = fields.get("error") is None and 200 <= status < 300
        if not is_good:
            raise TokenRefused(_word(fields) or f"status_{status}")
        return fields

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes, str]:
        if self._client is None:
            self._client = self._make_client()
        response = await self._client.post(join_url(url, ""), headers, body, TIMEOUT_S)
        try:
            return response.status, await _read(response), response.headers.get("content-type", "")
        finally:
            await response.aclose()


async def _read(response: Response) -> bytes:
    body = b""
    async for piece in response.pieces():
        body += piece
        if len(body) > MAX_ANSWER:
            raise TokenRefused(INVALID_RESPONSE)
    return body


def _fields(body: bytes, kind: str) -> dict[str, Any]:
    """Return the fields of an answer; none if it has none that can be read."""
    text = body.decode("utf-8", "replace")
    if kind.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        return dict(parse_qsl(text, max_num_fields=100))
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _word(fields: Mapping[str, Any]) -> str | None:
    """Return the word for a refusal: `error`, as the standard says, or what some services have instead."""
    error = fields.get("error")
    inner = error if isinstance(error, Mapping) else fields
    texts = (error, *map(inner.get, ("status", "code", "type")))
    words = (each.lower() for each in texts if isinstance(each, str))
    return next(filter(_CODE.fullmatch, words), None)


def _host(url: str) -> str:
    return join_url(url, "").host
