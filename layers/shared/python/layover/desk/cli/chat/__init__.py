"""`layover chat`: an agent in a terminal, which uses only the HTTP API."""
