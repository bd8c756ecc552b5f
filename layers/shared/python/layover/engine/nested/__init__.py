"""Sub-agents: a run inside a call of the run that asked for it (docs/sub-agents.md)."""
