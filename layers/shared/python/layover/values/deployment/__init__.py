"""The configuration of a deployment."""
