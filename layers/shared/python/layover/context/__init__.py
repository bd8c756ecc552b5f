"""What the model sees: the run's own messages, the window, the branch."""
