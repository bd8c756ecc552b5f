"""Hooks: an author's code around an agent's model, tools and end (docs/hooks.md)."""
