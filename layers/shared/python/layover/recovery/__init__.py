"""Watching over runs: the sweep, stalled branches, giving up, redriving."""
