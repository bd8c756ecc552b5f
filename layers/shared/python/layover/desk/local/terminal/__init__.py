"""The terminal of `make dev`: its lines about runs and waiting calls."""
