"""All users' runs, for operators: lists, one run step by step, and actions."""
