"""Requests to one service of AWS: signed, sent on the event loop, repeated by AWS's rules."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any
from zlib import crc32

from pydantic_core import from_json

from layover.adapters.aws.credentials import CredentialChain
from layover.adapters.aws.retries import NoAnswer, RetryRules, ServiceError
from layover.adapters.aws.signature import Signer
from layover.adapters.http.connection import WholeResponse
from layover.adapters.http.pool import PoolLimits, Pools
from layover.adapters.http.proxy import ProxyRefused, proxy_for
from layover.adapters.http.request import encode_request, join_url

ANSWER_TIMEOUT_S = 20.0
MAX_CONNECTIONS = 16
CONNECT_TIMEOUT_S = 3.0
MAX_IDLE_S = 300.0
"""NAT gateways forget a connection after 350 s, and the next request then times out."""
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException"})
_encode = json.JSONEncoder(separators=(",", ":")).encode


class AwsClient:
    """`endpoint`: URL of the service, with a path or without; `signer`: for its name and region;
    `variables`: of the process, which may name a proxy."""

    def __init__(
        self,
        endpoint: str,
        signer: Signer,
        credentials: CredentialChain,
        *,
        retries: RetryRules | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        url = join_url(endpoint, "")
        limits = PoolLimits(max_connections, MAX_IDLE_S, CONNECT_TIMEOUT_S)
        self._pools = Pools(url.target, limits, proxy_for(url, variables))
        self._host = url.host
        self._path = url.path
        self._signer = signer
        self._credentials = credentials
        self._retries = retries or RetryRules()
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._now = now

    async def call(
        self, target: str, document: Mapping[str, Any], version: str = "1.0"
    ) -> dict[str, Any]:
        """An operation of a service with a JSON protocol. `target`: `SERVICE_VERSION.Operation`.

        Raises ServiceError, and NoAnswer if the last attempt had none."""
        kind = f"application/x-amz-json-{version}"
        headers = {"content-type": kind, "x-amz-target": target}
        answer = await self.send("POST", "/", headers, _encode(document).encode())
        try:
            fields: dict[str, Any] = from_json(answer.body or b"{}")
        except ValueError as error:
            raise NoAnswer("the answer is not JSON") from error
        return fields

    async def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> WholeResponse:
        """Any request; `path`: below the endpoint's, encoded. Raises as `call` does."""
        path = self._path + path
        headers = {"host": self._host, **headers}
        attempt, renewed = 1, False
        while True:
            credentials = await self._credentials.get()
            signed_headers = self._signer.sign(
                credentials, (method, path), headers, body, self._now()
            )
            try:
                # Not signed, because they differ for each attempt.
                signed_headers["accept-encoding"] = "identity"
                signed_headers["amz-sdk-request"] = (
                    f"attempt={attempt}; max={self._retries.max_attempts}"
                )
                answer = await self._exchange(encode_request(method, path, signed_headers, body))
                self._retries.count_success(attempt)
                return answer
            except ServiceError as error:
                if error.code in _EXPIRED and not renewed:
                    renewed = True
                    if await self._credentials.renew(credentials):
                        continue
                fault: ServiceError | NoAnswer = error
            except NoAnswer as error:
                fault = error
            pause = self._retries.pause_s(attempt, fault)
            if pause is None:
                raise fault
            await self._sleep(pause)
            attempt += 1

    async def aclose(self) -> None:
        """Close this event loop's connections; the next request opens new ones."""
        await self._pools.aclose()

    async def _exchange(self, request: bytes) -> WholeResponse:
        try:
            answer = await self._pools.of_this_loop().exchange(request, self._timeout_s)
        except ProxyRefused as error:
            raise NoAnswer(str(error)) from error
        except OSError as error:
            raise NoAnswer(type(error).__name__) from error
        checksum = answer.headers.get("x-amz-crc32")
        if checksum is not None and checksum != str(crc32(answer.body)):
            raise NoAnswer("the answer does not match its checksum")
        if answer.status >= 300:
            raise _error(answer)
        return answer


def _error(answer: WholeResponse) -> ServiceError:
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    type_name = (
        document.get("__type") or answer.headers.get("x-amzn-errortype") or document.get("code")
    )
    code = str(type_name or answer.status).rpartition("#")[2].partition(":")[0]
    return ServiceError(code, answer.status, document, _retry_after(answer))


def _retry_after(answer: WholeResponse) -> float | None:
    wish = answer.headers.get("x-amz-retry-after", "")
    return int(wish) / 1000 if wish.isdecimal() else None
