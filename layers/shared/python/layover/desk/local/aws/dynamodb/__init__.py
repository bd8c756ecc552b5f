"""DynamoDB on one machine: its JSON protocol over SQLite, as far as the journal speaks it.

moto's DynamoDB is neither locked nor atomic, forgets everything with its process, and takes more time than
all the rest of a run.
"""
