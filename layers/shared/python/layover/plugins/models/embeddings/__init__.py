"""Texts to vectors: over the network, or on this machine."""
