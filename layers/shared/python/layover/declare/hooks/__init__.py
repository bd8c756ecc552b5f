"""Hooks: what authors put around an agent's model, tools and end (docs/hooks.md)."""
