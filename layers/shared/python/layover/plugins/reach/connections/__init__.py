"""Users' accounts at other services: tokens for tools, and the consent that they need
(docs/guides/connections.md)."""
