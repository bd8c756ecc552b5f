"""Threads, their messages, and what the next turn would start from."""
