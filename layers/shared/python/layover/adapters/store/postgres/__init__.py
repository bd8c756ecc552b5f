"""Postgres: threads, messages and memory under row security."""
