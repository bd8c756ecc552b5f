"""What the journal and the database have of threads and runs, as all packages above read it."""
