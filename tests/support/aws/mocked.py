"""boto3's clients for tests within moto. They are of one session, which reads the description of each service
once: moto forgets boto3's own with every test."""

from functools import cache
from typing import Any

REGION = "eu-west-1"


def make_client(service: str, region_name: str = REGION) -> Any:
    """A new client with credentials that nobody has."""
    return _session().client(
        service, region_name=region_name, aws_access_key_id="a", aws_secret_access_key="b"
    )


@cache
def _session() -> Any:
    import boto3

    return boto3.session.Session()
