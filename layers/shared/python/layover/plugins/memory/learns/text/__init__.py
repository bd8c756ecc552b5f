"""Texts as models quote them: evidence, values, secrets."""
