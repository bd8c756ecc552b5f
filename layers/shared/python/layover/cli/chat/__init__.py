"""`layover chat`: an agent in a terminal, over the HTTP API alone."""
