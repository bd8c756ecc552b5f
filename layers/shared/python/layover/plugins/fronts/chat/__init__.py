"""Chats of front ends: threads under the client's own ids, and the run that answers."""
