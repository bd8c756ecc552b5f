"""Users' spending: read out by day, and limited."""
