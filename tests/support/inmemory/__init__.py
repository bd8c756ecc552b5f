"""Ports in memory that only tests need; those of agents in one process are in `layover.inmemory`."""
