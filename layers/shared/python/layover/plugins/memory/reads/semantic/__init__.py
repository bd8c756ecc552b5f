"""Semantic recall: earlier messages that resemble the question."""
