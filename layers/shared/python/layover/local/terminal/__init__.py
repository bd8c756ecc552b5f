"""What `make dev` shows of what goes on, and what it does for whoever is writing an agent."""
