"""Values that memory reads and writes."""
