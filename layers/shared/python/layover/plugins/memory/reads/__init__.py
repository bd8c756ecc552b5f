"""What a turn reads of memory, and the tools that it gives to a model."""
