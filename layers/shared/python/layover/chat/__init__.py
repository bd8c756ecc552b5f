"""Chats of front ends: threads under ids of the client's own, and the run that answers."""
