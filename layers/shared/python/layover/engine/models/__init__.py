"""Which model a step asks."""
