"""The console: a static page over the HTTP API, the same on AWS and on one machine."""
