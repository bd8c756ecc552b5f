"""Episodic memory: what past turns taught an agent."""
