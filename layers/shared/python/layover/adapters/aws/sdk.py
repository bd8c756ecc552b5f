"""boto3, for rare requests. One session and one client for each service in an execution environment."""

import threading
from functools import cache
from typing import Any

POOL = 50
"""Connections; calls go through threads."""


_making = threading.Lock()


def client(service: str) -> Any:
    """The environment's client of a service. Clients are thread-safe, making them is not."""
    with _making:
        return _client(service)


@cache
def _client(service: str) -> Any:
    from botocore.config import Config

    return session().client(
        service,
        config=Config(
            connect_timeout=3,
            read_timeout=20,
            max_pool_connections=POOL,
            retries={"mode": "standard", "max_attempts": 4},
            # For presigned URLs: the bucket's own regional host, which never redirects, and
            # signatures that cover type and length.
            signature_version="s3v4" if service == "s3" else None,
            s3={"addressing_style": "virtual"},
        ),
    )


def client_at(service: str, endpoint: str, **settings: Any) -> Any:
    """A client of a service that has its own endpoint; `settings` are botocore's. The caller keeps it."""
    from botocore.config import Config

    with _making:
        return session().client(service, endpoint_url=endpoint, config=Config(**settings))


@cache
def session() -> Any:
    """The environment's session: credentials and region."""
    import boto3

    return boto3.session.Session()
