"""Items of the journal's table: how they are stored, and how they become values."""
