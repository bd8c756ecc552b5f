"""Evals: cases that an agent is run on, and whether it did what they expect (docs/guides/evals.md)."""
