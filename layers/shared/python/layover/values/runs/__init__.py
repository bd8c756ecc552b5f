"""Runs: their records, events, decisions and usage."""
