"""Episodic memory: lessons that an agent learned from past turns."""
