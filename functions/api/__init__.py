"""The HTTP API: API Gateway HTTP API events (payload 2.0) to services and back."""
