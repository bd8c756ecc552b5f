"""The connections that follow a run."""
