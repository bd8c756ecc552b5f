"""The parts of `@tool`: its options and their checks."""
