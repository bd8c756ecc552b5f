"""The model that a step calls, and the room for the call in the user's day."""
