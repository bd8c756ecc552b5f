"""The one-machine runner: the real handlers, state machine and SQL on one computer.

Left out of the layer: nothing that runs on AWS imports this package, and nothing in here is
imported by the functions. A child process knows only `AWS_ENDPOINT_URL` and the Runtime API.
"""
