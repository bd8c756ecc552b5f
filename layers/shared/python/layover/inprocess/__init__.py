"""An agent run in this process: the same steps as deployed, without an orchestrator."""
