"""Memory of runs that are over, and of other systems and owners."""
