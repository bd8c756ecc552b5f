"""The runner's own moto for tests: the local DynamoDB (locked, with real transactions), S3, Step Functions
and EventBridge, behind the clients of the functions and boto3's.

Tests do not truncate: each takes its own owner. moto's state is global, with one server for each process, so
the fixture lives only as long as a module, and a module that starts a whole runner finds the place free."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from layover.adapters.aws.services import AwsServices
from layover.desk.local.aws.access_key import AccessKey, make_access_key

if TYPE_CHECKING:
    from layover.desk.local.aws.emulator import AwsServer

WAITS: dict[str, Any] = {
    "StartAt": "Await",
    "States": {
        "Await": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken",
            "TimeoutSeconds": 60,
            "Parameters": {
                "TableName": "layover",
                "Key": {"pk": {"S": "TOKENS"}, "sk": {"S.$": "$$.Execution.Name"}},
                "UpdateExpression": "SET task_token = :t",
                "ExpressionAttributeValues": {":t": {"S.$": "$$.Task.Token"}},
            },
            "End": True,
        }
    },
}
"""A machine that stores its task token in the table and waits for an answer."""


@cache
def access_key() -> AccessKey:
    """One for all modules."""
    return make_access_key()


@cache
def _session() -> Any:
    """One for all modules: it keeps the services' descriptions, which take long to read."""
    from layover.desk.local.aws.clients import session

    return session(access_key())


class LocalAws:
    """Names and clients of a running server."""

    def __init__(self, server: "AwsServer") -> None:
        from layover.desk.local.aws import emulator as aws

        self._server = server
        self._clients: dict[str, Any] = {}
        self.table, self.bucket = aws.TABLE_NAME, aws.BUCKET_NAME
        self.state_machine_arn = aws.STATE_MACHINE_ARN
        self.endpoint = server.endpoint_url
        self.services = services_at(self.endpoint)

    def client(self, service: str) -> Any:
        """One client a service; made here, before threads use it."""
        from botocore.config import Config

        if service not in self._clients:
            config = Config(retries={"total_max_attempts": 1}, proxies={}, max_pool_connections=64)
            made = _session().client(service, endpoint_url=self._server.endpoint_url, config=config)
            self._clients[service] = made
            _ = made.exceptions  # Made on first use, and not by two threads at once.
        return self._clients[service]

    def published(self) -> list[dict[str, object]]:
        """Return the events that EventBridge took, in order."""
        return self._server.events.list()


def services_at(endpoint: str, key: AccessKey | None = None) -> AwsServices:
    """The functions' clients of whatever listens there. `key`: of its owner, if that is no test's."""
    keys = (key or access_key()).variables()
    return AwsServices({"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", **keys})


@pytest.fixture(scope="module")
async def aws(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalAws]:
    """Empty services with the table, the bucket and a state machine that waits for a token."""
    from layover.desk.local.aws.emulator import AwsServer
    from layover.desk.local.functions.lambda_service import LambdaService

    definition: Path = tmp_path_factory.mktemp("aws") / "machine.json"
    await asyncio.to_thread(definition.write_text, json.dumps(WAITS))
    server = AwsServer(LambdaService(concurrency=1), access_key=access_key())
    server.start()
    try:
        server.make_resources(definition)
        local = LocalAws(server)
        yield local
        await local.services.aclose()
    finally:
        server.stop_executions()
        server.stop()
