"""Threads and memory in memory."""
