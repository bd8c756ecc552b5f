"""Texts as memory reads them: words, evidence, secrets, a conversation as a compacting model is shown it."""
