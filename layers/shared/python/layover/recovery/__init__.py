"""The watch over runs: the sweep, stalled branches, giving up, redriving."""
