"""The parts of `Agent`: what its options may be, and how it runs in this process."""
