"""What memory learns of a run once it is over, and what it takes from other systems and from its owner."""
