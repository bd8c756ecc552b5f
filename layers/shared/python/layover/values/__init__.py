"""What Layover talks about: frozen values without I/O."""
