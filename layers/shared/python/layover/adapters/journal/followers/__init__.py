"""Who follows a run by socket."""
