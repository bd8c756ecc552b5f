"""Texts as memory reads them: words, evidence, secrets, and conversations in the form that a compacting model
reads."""
