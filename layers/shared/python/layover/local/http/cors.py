"""Web pages that may call the API: those of this machine, and those that `--origin` names."""

from collections.abc import Sequence
from typing import Any

from starlette.middleware.cors import CORSMiddleware

_LOCALHOST = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?"
_HEADERS_SHOWN = (
    "Location",
    "Preference-Applied",
    "Retry-After",
    "WWW-Authenticate",
    "X-Vercel-AI-UI-Message-Stream",
)
_MAX_AGE_S = 3600


class Cors:
    """An ASGI application that adds to the API's answers whether a page may read them. `/_local/*` answers
    only programs."""

    def __init__(self, app: Any, origins: Sequence[str] = ()) -> None:
        self._app = app
        self._shared = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_origin_regex=_LOCALHOST,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=list(_HEADERS_SHOWN),
            max_age=_MAX_AGE_S,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI entry."""
        is_shared = scope["type"] == "http" and not scope["path"].startswith("/_local/")
        await (self._shared if is_shared else self._app)(scope, receive, send)
