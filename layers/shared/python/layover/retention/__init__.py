"""Lifetimes of data: expiry, erasure, the export and the erasure of a user's data."""
