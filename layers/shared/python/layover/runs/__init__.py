"""A run's life: accepted, advanced, resumed, finished, cancelled, read."""
