"""A receiver of OTLP over HTTP, as the variables of OpenTelemetry describe it: `OTEL_EXPORTER_OTLP_*`."""

import asyncio
import gzip
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit

from opentelemetry.util.re import parse_env_headers

from layover.adapters.http.connection import ConnectionBroken
from layover.adapters.http.near import is_this_machine
from layover.adapters.http.pool import PoolLimits, Pools
from layover.adapters.http.request import encode_request, join_url

if TYPE_CHECKING:
    import requests

KEEP_ALIVE_S = 120.0
"""An idle connection that is older is not used again."""
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
TOO_LARGE = 413
_MAY_PASS = frozenset({429, 502, 503, 504})
"""Statuses after which the specification has a request sent again; after any other it never is."""
SIGNALS = ("traces", "metrics")


class Refused(Exception):
    """The receiver answered, and took nothing. The message has the status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def may_pass(error: BaseException) -> bool:
    """Return whether the same request may be taken later."""
    if isinstance(error, Refused):
        return error.status in _MAY_PASS
    return isinstance(error, OSError | asyncio.CancelledError)


def is_sent(signal: str, variables: Mapping[str, str]) -> bool:
    """Return whether the variables have a signal sent by this protocol: it is the default, and there are
    others, and `none`."""
    exporters = _exporters(signal, variables)
    return not exporters or any(map(_is_spoken, exporters))


def unspoken(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each variable that wants what is not spoken here."""
    for signal in SIGNALS:
        for name in _exporters(signal, variables):
            if name != "none" and not _is_spoken(name):
                yield f"OTEL_{signal.upper()}_EXPORTER={name} is not known here: otlp and none are"
        protocol = _variable(signal, "PROTOCOL", variables).strip().lower()
        if protocol not in ("", "http/protobuf") and is_sent(signal, variables):
            yield (
                f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not spoken here: {signal} are sent by "
                "http/protobuf, for which collectors have another port (4318, not 4317)"
            )


def _exporters(signal: str, variables: Mapping[str, str]) -> list[str]:
    names = variables.get(f"OTEL_{signal.upper()}_EXPORTER", "").lower().split(",")
    return [name for each in names if (name := each.strip())]


def _is_spoken(exporter: str) -> bool:
    return exporter.startswith("otlp")


def _variable(signal: str, name: str, variables: Mapping[str, str]) -> str:
    own = variables.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}")
    return own or variables.get(f"OTEL_EXPORTER_OTLP_{name}", "")


@dataclass(frozen=True)
class Receiver:
    """`url`: with the path of the signal. `verify`: True, or a file with the roots to trust; `certificate`:
    of this client, and its key. `has_proxy`: the variables name one, and this is not on this machine."""

    url: str
    headers: Mapping[str, str]
    compression: str = ""
    verify: bool | str = True
    certificate: tuple[str, str] | str | None = None
    has_proxy: bool = False

    @classmethod
    def of(
        cls, signal: str, variables: Mapping[str, str], headers: Mapping[str, str]
    ) -> "Receiver":
        """Return the receiver of `traces` or `metrics`. `headers` count more than those of the variables."""

        def variable(name: str) -> str:
            return _variable(signal, name, variables)

        url = variables.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        if not url:
            base = variables.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
            url = f"{base.removesuffix('/')}/v1/{signal}"
        certificate, key = variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY")
        compression = variable("COMPRESSION").strip().lower()
        fields = {
            "content-type": "application/x-protobuf",
            "user-agent": "layover",
            **parse_env_headers(variable("HEADERS"), liberal=True),
            **{name.lower(): value for name, value in headers.items()},
        }
        if compression in _PACKERS:
            fields["content-encoding"] = compression
        return cls(
            url,
            fields,
            compression,
            verify=variable("CERTIFICATE") or True,
            certificate=(certificate, key) if certificate and key else certificate or None,
            has_proxy=any(variables[name] for name in variables if name.lower() in _PROXIES)
            and not is_this_machine(urlsplit(url).hostname or ""),
        )

    @property
    def needs_library(self) -> bool:
        """True if a proxy or certificates of the deployer's are set: a library knows what these want."""
        return self.has_proxy or self.verify is not True or self.certificate is not None

    def packed(self, body: bytes) -> bytes:
        """Return the body as it is sent."""
        pack = _PACKERS.get(self.compression)
        return pack(body) if pack else body


class DirectSender:
    """Sends on the event loop, over a connection that it keeps."""

    def __init__(self, receiver: Receiver, timeout_s: float) -> None:
        self._receiver = receiver
        self._timeout_s = timeout_s
        self._url = join_url(receiver.url, "")
        self._pools = Pools(self._url.target, PoolLimits(1, KEEP_ALIVE_S, timeout_s))
        own = {"host": self._url.host}
        if self._url.user:
            own["authorization"] = f"Basic {b64encode(unquote_to_bytes(self._url.user)).decode()}"
        self._headers = {**own, **receiver.headers}

    async def post(self, body: bytes) -> None:
        """Send a request. Raises OSError, and Refused."""
        packed = self._receiver.packed(body)
        request = encode_request("POST", self._url.path or "/", self._headers, packed)
        pool = self._pools.of_this_loop()
        try:
            answer = await pool.exchange(request, self._timeout_s)
        except ConnectionBroken:
            # A kept connection that the receiver has closed meanwhile. Spans have ids: twice is once.
            answer = await pool.exchange(request, self._timeout_s)
        _check(answer.status)

    async def aclose(self) -> None:
        """Close this event loop's connection."""
        await self._pools.aclose()


class LibrarySender:
    """Sends by `requests`, in its own thread or in the caller's."""

    def __init__(self, receiver: Receiver, timeout_s: float) -> None:
        self._receiver = receiver
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(1, "layover-otlp")

    @cached_property
    def _session(self) -> "requests.Session":
        import requests

        return requests.Session()

    async def post(self, body: bytes) -> None:
        """Send a request. Raises OSError, and Refused."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.post_now, body)

    def post_now(self, body: bytes) -> None:
        """Send a request, and wait for its answer. Raises OSError, and Refused."""
        receiver = self._receiver
        answer = self._session.post(
            receiver.url,
            data=receiver.packed(body),
            headers=dict(receiver.headers),
            timeout=self._timeout_s,
            verify=receiver.verify,
            cert=receiver.certificate,
            proxies=None if receiver.has_proxy else {"no_proxy": "*"},
            allow_redirects=False,
        )
        _check(answer.status_code)

    async def aclose(self) -> None:
        """Close the connection."""
        self._session.close()


def _check(status: int) -> None:
    if not 200 <= status < 300:
        raise Refused(status)
