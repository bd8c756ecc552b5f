"""Fixtures of every folder."""

import gc
from collections.abc import Generator

import pytest

pytest_plugins = ("support.tiers", "support.starts", "support.postgres.server")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what lives as long as the process: thousands of collected tests. Going
    through them again and again took a fifth of the time in which each worker collects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
