"""Sockets behind API Gateway."""
