"""HTTP/1.1 on the event loop, for the requests of every turn to AWS's services and models' providers."""
