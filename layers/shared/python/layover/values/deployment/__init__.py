"""What a deployment is configured with."""
