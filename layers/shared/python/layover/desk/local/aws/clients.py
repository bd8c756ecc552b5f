"""Clients of the services on this machine, for the command line and for tests."""

from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from layover.desk.local.aws.access_key import AccessKey
from layover.desk.local.functions.invocation import REGION


def session(key: AccessKey) -> boto3.Session:
    """Return a session that signs with this key, and reads nothing of the developer's AWS configuration or
    credentials."""
    nothing: dict[str, Any] = {
        "profile": (None, None, None, None),
        "config_file": (None, None, "/dev/null", None),
        "credentials_file": (None, None, "/dev/null", None),
    }
    core = botocore.session.Session(session_vars=nothing)
    core.set_credentials(key.id, key.secret)
    return boto3.Session(botocore_session=core, region_name=REGION)


def make_client(service: Any, endpoint_url: str, key: AccessKey) -> Any:
    """Return a client of the local services: without retries and proxy, with connections for 64 threads."""
    config = Config(
        retries={"total_max_attempts": 1},
        proxies={},
        max_pool_connections=64,
        parameter_validation=False,
    )
    client: Any = session(key).client(service, endpoint_url=endpoint_url, config=config)
    return client
