"""Items of the journal's table: their storage format, and their conversion into values."""
