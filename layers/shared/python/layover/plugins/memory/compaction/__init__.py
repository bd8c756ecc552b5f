"""Older messages of a branch become observations or a summary."""
