"""The history of a workflow's named step."""
