"""AWS: a small client for the requests of every turn, boto3 (`sdk`) for the rest."""
