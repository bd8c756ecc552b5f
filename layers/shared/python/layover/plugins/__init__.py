"""The plugins: parts that the runtime works without. Each folder is one, and none imports another
(docs/adr/0023-three-rooms.md)."""
