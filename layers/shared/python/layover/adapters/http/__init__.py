"""HTTP/1.1 on the event loop, for what every turn asks: AWS's services and models' providers."""
