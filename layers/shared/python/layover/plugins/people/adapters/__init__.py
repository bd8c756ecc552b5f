"""Services that reach people: what sends messages about calls."""
