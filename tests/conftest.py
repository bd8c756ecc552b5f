"""Fixtures of every folder."""

import gc

pytest_plugins = ("support.tiers", "support.postgres.server")


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives as long as the process: thousands of collected tests."""
    gc.collect()
    gc.freeze()
