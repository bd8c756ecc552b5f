"""The HTTP API from the command line: a deployment's, or the one-machine system's."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from layover.desk.failures import CommandFailed, report_failure
from layover.desk.local.doors import LOCAL_HEADER, LOOPBACK
from layover.values.deployment.access import DISCOVERY, RESOURCE_HEADER

TIMEOUT_S = 40.0
"""A long poll takes 25 s at most, API Gateway gives up after 30."""
_STREAM = "text/event-stream"
NO_AGENTS = "no agents are served: write one in the module that `agents` names in layover.toml"
REFUSED, USAGE, NO_ANSWER = 1, 2, 3
"""Exit codes: the API refused, and will refuse again; the command line is wrong; the API did not answer, or
failed, and may work later."""


class ApiError(CommandFailed):
    """An error answer of the API, in one line, and the exit code of a command that ends with it.
    `status`: of the HTTP answer, if there was one."""

    def __init__(self, message: str, exit_code: int, status: int | None = None) -> None:
        super().__init__(message, exit_code)
        self.status = status


class Api:
    """One user of the API at `url`, or a backend that acts for `owner`. Every call raises ApiError for an
    answer other than 2xx."""

    def __init__(
        self, url: str, token: str, timeout_s: float = TIMEOUT_S, *, owner: str = ""
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            problem = f"{url!r} is not the URL of an API: write http://HOST or https://HOST"
            raise ApiError(problem, USAGE)
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if owner:
            self._headers[RESOURCE_HEADER] = owner
        self._timeout_s = timeout_s
        self._streams: str | None = None
        """Base URL of streams, once it is known."""
        # The environment's proxy cannot reach this machine.
        self._is_local = urlsplit(url).hostname in LOOPBACK
        handlers = [urllib.request.ProxyHandler({})] if self._is_local else []
        self._open = urllib.request.build_opener(*handlers).open

    def get(self, path: str, **query: object) -> Any:
        """The JSON that a GET answers."""
        return self._send("GET", path + (f"?{urlencode(query)}" if query else ""), None)

    def post(self, path: str, *, idempotency_key: str = "", **body: object) -> Any:
        """The JSON that a POST answers. The same key and body get the first answer again."""
        more = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._send("POST", path, json.dumps(body).encode(), more)

    def put(self, path: str, **body: object) -> Any:
        """The JSON that a PUT answers."""
        return self._send("PUT", path, json.dumps(body).encode())

    def delete(self, path: str) -> Any:
        """The JSON that a DELETE answers; None without content."""
        return self._send("DELETE", path, None)

    def follow(self, path: str, **query: object) -> Iterator[dict[str, Any]]:
        """Pages of events from a GET of `path`: one page for each event of a stream, or the single page of a
        poll if there is no stream. Raises ApiError."""
        with self._errors(), self._followed(f"{path}?{urlencode(query)}") as answer:
            if answer.headers.get_content_type() != _STREAM:
                yield json.load(answer)
                return
            for line in answer:
                if line.startswith(b"data:"):
                    event = json.loads(line[len(b"data:") :])
                    yield {"items": [event], "last_seq": event["seq"], "done": False}

    def upload(self, url: str, data: bytes, mime_type: str) -> None:
        """Upload bytes to a file's `upload_url`, without the token."""
        headers = {"Content-Type": mime_type}
        request = urllib.request.Request(url, data, headers, method="PUT")
        try:
            with self._open(request, timeout=self._timeout_s) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                problem = f"the file was refused ({error.code})"
                raise ApiError(problem, _exit_code(error.code), error.code) from error
        except OSError as error:
            raise ApiError("the file could not be sent", NO_ANSWER) from error

    def _followed(self, path: str) -> Any:
        """Return the answer of the streams' URL. If there is no such URL, or the stream does not begin,
        return the API's own answer, a page."""
        if self._streams is None:
            self._streams = stream_base(self._url, self.get(DISCOVERY).get("stream_url"))
        headers = {**self._headers, "Accept": f"{_STREAM}, application/json;q=0.5"}
        if self._streams != self._url:
            request = urllib.request.Request(self._streams + path, None, headers)
            try:
                with self._errors():
                    return self._open(request, timeout=self._timeout_s)
            except ApiError:
                # The network may let only the API through. The API also reports errors of the request.
                self._streams = self._url
        request = urllib.request.Request(self._url + path, None, headers)
        return self._open(request, timeout=self._timeout_s)

    def _send(
        self, method: str, path: str, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> Any:
        headers = {**self._headers, **(more or {})}
        if path.startswith("/_local/"):
            headers[LOCAL_HEADER] = "1"
        request = urllib.request.Request(self._url + path, body, headers, method=method)
        with self._errors(), self._open(request, timeout=self._timeout_s) as answer:
            return None if answer.status == HTTPStatus.NO_CONTENT else json.load(answer)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise a request's errors as ApiError."""
        try:
            yield
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(_problem_text(error), _exit_code(error.code), error.code) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            hint = "; does `layover dev` run?" if self._is_local else ""
            raise ApiError(f"no answer from {self._url}: {reason}{hint}", NO_ANSWER) from error
        except (ValueError, KeyError) as error:
            problem = f"{self._url} answers, but not as Layover does"
            raise ApiError(problem, NO_ANSWER) from error


def stream_base(url: str, stream_url: str | None) -> str:
    """Return the base URL of streams, as the API at `url` names it. A token that was received over TLS is
    never sent without it. In that case, and if the API names no URL, the base is `url`."""
    if not stream_url or (urlsplit(url).scheme, urlsplit(stream_url).scheme) == ("https", "http"):
        return url
    return stream_url.rstrip("/")


def _exit_code(status: int) -> int:
    return NO_ANSWER if status >= 500 or status == 429 else REFUSED


def _problem_text(error: urllib.error.HTTPError) -> str:
    """The problem's detail (RFC 9457) with the wrong fields, or at least the status."""
    try:
        problem = json.load(error)
        text = str(problem.get("detail") or problem["title"])
        text = "; ".join([text, *map(_wrong_field, problem.get("errors", ()))])
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        text = str(error.reason)
    return f"{' '.join(text.split())} ({error.code})"


def _wrong_field(error: dict[str, Any]) -> str:
    return f"{'.'.join(map(str, error['loc'][1:]))}: {error['msg']}"


@report_failure
def redrive(who: Callable[[], tuple[str, str]], run_id: str, owner: str = "") -> int:
    """Redrive a run in a fresh execution, as `who` (URL and token), for its owner if the token is another
    user's. Print the result, and return the exit code."""
    try:
        run = Api(*who(), owner=owner).post(f"/runs/{quote(run_id, safe='')}/redrive")
    except ApiError as error:
        raise ApiError(f"{run_id}: {error}", error.exit_code) from error
    print(f"{run['id']}: {run['status']}, a fresh execution drives it")
    return 0
