"""Users' grants at other services: their records, what seals them, and token endpoints."""
