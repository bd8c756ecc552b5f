"""How long data lives: expiry, erasure, the export and the end of a user's data."""
