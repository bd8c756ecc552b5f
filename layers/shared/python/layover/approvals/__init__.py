"""Decisions of people about calls that wait."""
