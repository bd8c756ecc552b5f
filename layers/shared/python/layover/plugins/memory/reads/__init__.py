"""Memory as a turn reads it, and the tools that it gives to a model."""
