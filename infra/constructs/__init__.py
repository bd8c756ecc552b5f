"""One construct a file; `infra/stack.py` puts them together."""
