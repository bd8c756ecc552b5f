"""What users spend: read out by day, and limited."""
