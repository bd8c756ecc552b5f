"""Services that reach people (`ports.channels.Sender`)."""
