"""Everything that users of Layover write: agents, tools, memory settings. They import it from `layover`."""
