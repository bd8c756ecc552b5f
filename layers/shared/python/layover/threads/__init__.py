"""Threads, their messages, and the memory from which the next turn would start."""
