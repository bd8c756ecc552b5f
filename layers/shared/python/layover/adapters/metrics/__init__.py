"""Adapters of `ports.Metrics`."""
