"""The life of a run: accepting, advancing, resuming, finishing, cancelling and reading it."""
