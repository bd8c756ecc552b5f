"""The parts of the port `MemoryStore`."""
