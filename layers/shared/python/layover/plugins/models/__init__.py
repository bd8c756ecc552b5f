"""Models behind the port `ChatModel`."""
