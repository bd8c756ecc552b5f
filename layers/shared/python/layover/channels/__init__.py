"""People are told of calls that wait for them (docs/adr/0021-channels.md)."""
