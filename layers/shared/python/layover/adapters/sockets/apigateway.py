"""Open sockets through API Gateway's `@connections`, and deliveries by the function."""

import json
from urllib.parse import quote

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.functions import invoke_later
from layover.adapters.aws.retries import NoAnswer, RetryRules, ServiceError
from layover.adapters.aws.services import AwsServices
from layover.adapters.journal.followers.connections import TableConnections
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.errors import RetryableError
from layover.ports import SocketPorts
from layover.ports.sockets import SocketGone, SocketUnsure
from layover.values.socket import Subscription

_MAX_CONCURRENT = 8
"""The most posts under way in one process. They have separate connections, so that slow sockets never hold up
the journal."""
_POST_TAKES_S = 3
_GONE_CODES = {"GoneException"}
_ROOM_LATER = {"LimitExceededException", "ThrottlingException", "TooManyRequestsException"}


class ApiGatewaySockets:
    """`ports.Sockets`. `client`: of the API's management endpoint. It never repeats a request, because a
    frame could then arrive twice."""

    def __init__(self, client: AwsClient) -> None:
        self._client = client

    async def post(self, connection_id: str, frame: str) -> None:
        """See `ports.Sockets`."""
        await self._send("POST", connection_id, frame.encode())

    async def close(self, connection_id: str) -> None:
        """See `ports.Sockets`."""
        try:
            await self._send("DELETE", connection_id, b"")
        except SocketGone:
            return
        except SocketUnsure as error:
            raise RetryableError("API Gateway may not have closed the connection") from error

    async def _send(self, method: str, connection_id: str, body: bytes) -> None:
        path = f"/@connections/{quote(connection_id, safe='')}"
        try:
            await self._client.send(method, path, {}, body)
        except ServiceError as error:
            if error.code in _GONE_CODES or error.status == 410:
                raise SocketGone from error
            if error.code in _ROOM_LATER or error.status == 429:
                raise RetryableError(f"API Gateway answered {error.code}") from error
            raise SocketUnsure(f"API Gateway answered {error.code}") from error
        except NoAnswer as error:
            raise SocketUnsure(f"API Gateway did not answer: {error}") from error


class LambdaPush:
    """`ports.PushLater`: an event for the function `socket`."""

    def __init__(self, client: AwsClient, function: str) -> None:
        self._client = client
        self._function = function

    async def later(self, line: Subscription) -> None:
        """See `ports.PushLater`."""
        event = {
            "v": 1,
            "op": "push",
            "owner": line.owner,
            "run_id": line.run_id,
            "connection_id": line.connection_id,
        }
        try:
            await invoke_later(self._client, self._function, json.dumps(event).encode())
        except (NoAnswer, ServiceError) as error:
            raise RetryableError(f"Lambda did not take it: {error}") from error


def socket_ports(
    table: DynamoTable, aws: AwsServices, url: str, endpoint: str, function: str
) -> SocketPorts:
    """The ports on AWS. `endpoint`: `https://API.execute-api.REGION.amazonaws.com/STAGE`; `function`:
    name or ARN of `socket`."""
    return SocketPorts(
        url=url,
        sockets=ApiGatewaySockets(management_client(aws, endpoint)),
        connections=TableConnections(table),
        later=LambdaPush(aws.client("lambda"), function),
    )


def management_client(aws: AwsServices, endpoint: str) -> AwsClient:
    """The client of one API's `@connections`."""
    return aws.client_at(
        endpoint,
        "execute-api",
        retries=RetryRules(max_attempts=1),
        timeout_s=_POST_TAKES_S,
        max_connections=_MAX_CONCURRENT,
    )
