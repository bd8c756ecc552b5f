"""The fixtures of the API's tests: `api` is a client of the function, `world` is behind it."""

from integration.api.conftest import api, world

__all__ = ["api", "world"]
