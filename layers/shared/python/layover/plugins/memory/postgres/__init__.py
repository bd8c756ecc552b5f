"""Memory on Postgres."""
