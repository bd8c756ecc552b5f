"""API Gateway on one machine."""
