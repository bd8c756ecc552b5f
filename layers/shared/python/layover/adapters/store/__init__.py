"""Stores of data that outlives a run."""
