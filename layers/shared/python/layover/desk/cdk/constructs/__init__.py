"""One construct in each file; `infra/stack.py` puts them together."""
