"""Step Functions and EventBridge."""
