"""Working memory, profiles, plans and iteration logs."""
