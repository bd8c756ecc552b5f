"""AWS: a small client for what every turn needs, boto3 (`sdk`) for the rest."""
