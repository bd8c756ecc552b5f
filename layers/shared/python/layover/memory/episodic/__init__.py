"""Episodic memory: lessons that past turns taught an agent."""
