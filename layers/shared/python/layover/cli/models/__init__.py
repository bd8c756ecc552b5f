"""What is known of providers and models, and the command that lists what a deployment can reach."""
