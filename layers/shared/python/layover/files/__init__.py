"""Files that users upload and tools make, and the histories of named steps."""
