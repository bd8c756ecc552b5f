"""Invocations that nobody waits for."""
