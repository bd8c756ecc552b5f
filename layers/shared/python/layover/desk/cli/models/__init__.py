"""Support of models by their providers, and the command that lists what a deployment can reach."""
