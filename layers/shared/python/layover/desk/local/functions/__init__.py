"""Lambda on one machine."""
