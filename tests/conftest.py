"""Fixtures of every folder."""

pytest_plugins = ("postgres_fixture",)
