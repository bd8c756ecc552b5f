"""Invocations without a waiting caller."""
