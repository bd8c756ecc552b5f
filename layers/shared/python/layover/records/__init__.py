"""Threads and runs as the journal and the database have them, for every package above."""
