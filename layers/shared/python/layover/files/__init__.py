"""Files that users upload and tools make."""
