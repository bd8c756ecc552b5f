"""The parts of `Agent`: the checks of its options, and its methods in this process."""
