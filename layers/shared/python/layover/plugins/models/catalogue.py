"""The catalogue of `genai-prices`, imported without its part that fetches newer prices.

That part imports an HTTP client (60 ms, 7 MB), and nothing here needs it. Other code in the process that asks
the package for it still gets it."""

import sys
from importlib import import_module
from types import ModuleType

_PACKAGE = "genai_prices"
_FETCHER = f"{_PACKAGE}.update_prices"


def _import_lean() -> None:
    """Import the package with a placeholder for the part, whose names load the part itself."""
    if _PACKAGE in sys.modules:
        return
    names: list[str] = []

    def look_up(name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)
        names.append(name)

    def fetch(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
        return getattr(import_module(_FETCHER), name)

    placeholder = ModuleType(_FETCHER)
    vars(placeholder)["__getattr__"] = look_up
    sys.modules[_FETCHER] = placeholder
    try:
        package = import_module(_PACKAGE)
    finally:
        del sys.modules[_FETCHER]
    for name in names:
        delattr(package, name)
    vars(package)["__getattr__"] = fetch


_import_lean()
import_module(f"{_PACKAGE}.data")  # Otherwise the first look-up would import it.

from genai_prices import Usage as Counts  # noqa: E402
from genai_prices.data_snapshot import get_snapshot  # noqa: E402

__all__ = ["Counts", "get_snapshot"]
