"""Telling people of calls that wait for them, where a deployment's configuration says that they are
(docs/behaviour.md#channels)."""
