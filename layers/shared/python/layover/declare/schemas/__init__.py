"""From Python signatures to JSON schemas, and from results to text."""
