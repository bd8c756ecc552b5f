"""Clients of the services on this machine, for the command line and for tests."""

from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from layover.local.functions.invocation import REGION


def session() -> boto3.Session:
    """Return a session that reads nothing of the developer's AWS configuration or credentials."""
    nothing: dict[str, Any] = {
        "profile": (None, None, None, None),
        "config_file": (None, None, "/dev/null", None),
        "credentials_file": (None, None, "/dev/null", None),
    }
    core = botocore.session.Session(session_vars=nothing)
    core.set_credentials("local", "local")
    return boto3.Session(botocore_session=core, region_name=REGION)


def make_client(service: Any, endpoint_url: str, read_timeout: float = 60.0) -> Any:
    """Return a client of the local services: without retries and proxy, with connections for 64 threads."""
    config = Config(
        retries={"total_max_attempts": 1},
        proxies={},
        read_timeout=read_timeout,
        max_pool_connections=64,
        parameter_validation=False,
    )
    client: Any = session().client(service, endpoint_url=endpoint_url, config=config)
    return client
