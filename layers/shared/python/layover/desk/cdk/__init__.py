"""The deployment: construct, settings, builds and checks. `layover.cdk` is its front."""
