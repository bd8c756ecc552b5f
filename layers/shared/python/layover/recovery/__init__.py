"""What watches over runs: the sweep, stalled branches, giving up, redriving."""
