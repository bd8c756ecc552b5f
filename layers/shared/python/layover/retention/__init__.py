"""Lifetimes of data: expiry, erasure, the export and the end of a user's data."""
