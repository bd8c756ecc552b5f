"""The answers of an agent's hooks, asked for and journaled (docs/hooks.md)."""
