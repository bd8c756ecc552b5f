"""Which model a step asks, and what a day leaves for it."""
