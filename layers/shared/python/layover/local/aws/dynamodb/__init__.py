"""DynamoDB on one machine: its JSON protocol over SQLite.

moto's is neither locked nor atomic, forgets everything with its process, and costs more than the rest of a
run together.
"""
