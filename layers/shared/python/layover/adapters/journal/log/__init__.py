"""A run's log: its batches of events, and the writes of one writer."""
