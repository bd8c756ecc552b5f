"""The frames of a run: the run itself, and each sub-agent inside one of its calls (docs/sub-agents.md)."""
