"""WebSocket subscriptions and the delivery of events to them."""
