"""Open sockets through API Gateway's `@connections`, and what is left to send through the function."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from layover.adapters.aws import client, client_at
from layover.adapters.journal.followers.connections import TableConnections
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.errors import RetryableError
from layover.ports import SocketPorts
from layover.ports.sockets import SocketGone, SocketUnsure
from layover.values.socket import Subscription

_AT_ONCE = 8
"""Posts under way in one process, in threads of their own: slow sockets never hold up the journal's."""
_POST_TAKES_S = 3
_GONE = {"GoneException"}
_ROOM_LATER = {"LimitExceededException", "ThrottlingException", "TooManyRequestsException"}


class ApiGatewaySockets:
    """`ports.Sockets`. `client`: makes the client of the API's management endpoint; it never repeats a
    request, or a frame could come twice."""

    def __init__(self, client: Callable[[], Any]) -> None:
        self._client = client
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="socket")

    async def post(self, connection_id: str, frame: str) -> None:
        """See `ports.Sockets`."""
        await self._call("post_to_connection", ConnectionId=connection_id, Data=frame.encode())

    async def close(self, connection_id: str) -> None:
        """See `ports.Sockets`."""
        try:
            await self._call("delete_connection", ConnectionId=connection_id)
        except SocketGone:
            return
        except SocketUnsure as error:
            raise RetryableError("API Gateway may not have closed the connection") from error

    async def _call(self, operation: str, **arguments: Any) -> None:
        request = partial(_request, self._client, operation, arguments)
        await asyncio.get_running_loop().run_in_executor(self._threads, request)


def _request(client: Callable[[], Any], operation: str, arguments: dict[str, Any]) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        getattr(client(), operation)(**arguments)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _GONE or status == 410:
            raise SocketGone from error
        if code in _ROOM_LATER or status == 429:
            raise RetryableError(f"API Gateway answered {code}") from error
        raise SocketUnsure(f"API Gateway answered {code}") from error
    except BotoCoreError as error:
        raise SocketUnsure(f"API Gateway did not answer: {type(error).__name__}") from error


class LambdaPush:
    """`ports.PushLater`: an event for the function `socket`."""

    def __init__(self, client: Callable[[], Any], function: str) -> None:
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
        await asyncio.to_thread(self._send, json.dumps(event).encode())

    def _send(self, payload: bytes) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client().invoke(
                FunctionName=self._function, InvocationType="Event", Payload=payload
            )
        except (BotoCoreError, ClientError) as error:
            raise RetryableError(f"Lambda did not take it: {type(error).__name__}") from error


def socket_ports(table: str, url: str, endpoint: str, function: str) -> SocketPorts:
    """The ports on AWS. `endpoint`: `https://API.execute-api.REGION.amazonaws.com/STAGE`; `function`:
    name or ARN of `socket`."""
    return SocketPorts(
        url=url,
        sockets=ApiGatewaySockets(partial(management_client, endpoint)),
        connections=TableConnections(DynamoTable(partial(client, "dynamodb"), table)),
        later=LambdaPush(partial(client, "lambda"), function),
    )


@cache
def management_client(endpoint: str) -> Any:
    """The client of one API's `@connections`."""
    return client_at(
        "apigatewaymanagementapi",
        endpoint,
        connect_timeout=2,
        read_timeout=_POST_TAKES_S,
        max_pool_connections=_AT_ONCE,
        retries={"total_max_attempts": 1},
    )
