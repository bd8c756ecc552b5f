"""Services that a Task calls: functions, and DynamoDB."""

import asyncio
import json
from typing import Any

from layover.desk.local.aws.dynamodb.errors import DynamoDBError
from layover.desk.local.aws.dynamodb.service import DynamoDB
from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.functions.invocation import InvokeResult, LambdaError
from layover.desk.local.functions.lambda_service import LambdaService

_SERVICE = "arn:aws:states:::"
_FUNCTION = "arn:aws:lambda:"


class Tasks:
    """Carries out tasks. Executions run in the emulator's event loop and functions in the runner's, so a task
    crosses from one loop to the other."""

    def __init__(self, functions: LambdaService, dynamodb: DynamoDB) -> None:
        self._functions = functions
        self._dynamodb = dynamodb

    async def __call__(self, resource: str, parameters: Any) -> Any:
        """Return a task's result. Raises StateFailed."""
        if resource.startswith(_FUNCTION):
            return await self._invoke(resource, parameters)
        name = resource.removeprefix(_SERVICE)
        if name == "lambda:invoke":
            payload = await self._invoke(parameters["FunctionName"], parameters.get("Payload", {}))
            return {"ExecutedVersion": "$LATEST", "Payload": payload, "StatusCode": 200}
        service, _, operation = name.removeprefix("aws-sdk:").partition(":")
        if service != "dynamodb":
            raise StateFailed("States.Runtime", f"{resource} is not called on one machine")
        try:
            return self._dynamodb.call(operation[0].upper() + operation[1:], parameters)
        except DynamoDBError as error:
            # Errors of SDK integrations begin with the SDK's name of the service, others with AWS's own.
            prefix = "DynamoDb" if name.startswith("aws-sdk:") else "DynamoDB"
            raise StateFailed(f"{prefix}.{error.code}", str(error)) from error

    async def _invoke(self, reference: str, payload: Any) -> Any:
        try:
            result = await self._result(function_name(reference), json.dumps(payload).encode())
        except LambdaError as error:
            raise StateFailed(f"Lambda.{error.code}", str(error)) from error
        if result.function_error is not None:
            raise StateFailed(result.error_type, result.payload.decode("utf-8", "replace"))
        return json.loads(result.payload or b"null")

    async def _result(self, name: str, payload: bytes) -> InvokeResult:
        self._functions.check(name, payload)
        work = self._functions.invoke(name, payload)
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._functions.loop)
        except RuntimeError:
            work.close()
            raise LambdaError("the runner is stopping") from None
        return await asyncio.wrap_future(future)


def function_name(reference: str) -> str:
    """Return the name in `name`, `name:qualifier`, `account:function:name` or an ARN."""
    parts = reference.split(":")
    return parts[parts.index("function") + 1] if "function" in parts[:-1] else parts[0]
