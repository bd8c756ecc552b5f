"""The connection to a receiver. `requests` takes a millisecond for each request, several times as long as the
pool of connections below it, which is all that a receiver without a proxy needs."""

from typing import Any

import requests
import urllib3
from requests.utils import get_environ_proxies


class LeanSession(requests.Session):
    """A session that sends by its pool alone, unless a proxy or certificates of the deployer's are set."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = urllib3.PoolManager(1, maxsize=1, retries=False, cert_reqs="CERT_REQUIRED")
        self._is_lean: bool | None = None

    def request(  # type: ignore[override]
        self, method: str, url: str, *, headers: Any, data: Any, timeout: Any, **more: Any
    ) -> requests.Response:
        """Send a request. Raises what `requests` raises."""
        if self._is_lean is None:
            has_own = self.verify is not True or self.cert is not None
            self._is_lean = not has_own and not get_environ_proxies(url)
        if not self._is_lean:
            return super().request(method, url, headers=headers, data=data, timeout=timeout, **more)
        try:
            answer = self._pool.request(
                method,
                url,
                body=data,
                headers={**self.headers, **(headers or {})},
                timeout=timeout,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise requests.exceptions.ConnectionError(error) from error
        response = requests.Response()
        response.status_code, response.reason = answer.status, answer.reason or ""
        response.headers.update(answer.headers)
        response._content = answer.data
        return response
