"""`layover ops`: what operators do, from the command line."""
