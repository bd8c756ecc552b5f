"""Long threads in few lines: observations and summaries."""
