"""The prompt's content: the run's own messages, the window, the branch."""
