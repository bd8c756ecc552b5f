"""What memory reads and writes."""
