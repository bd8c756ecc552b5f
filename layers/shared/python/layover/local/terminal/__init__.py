"""The terminal of `make dev`: its lines about runs, and its help for the author of an agent."""
