"""The model that a step calls, and the room that a user's day leaves for the call."""
