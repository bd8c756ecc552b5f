"""Errors, under DynamoDB's own names."""

from typing import Any

_DYNAMODB = "com.amazonaws.dynamodb.v20120810#"
_CORAL = "com.amazon.coral.validate#"


class DynamoDBError(Exception):
    """An error response. `code` is the exception's name in the SDKs; `fields` are sent with the message."""

    code = "InternalServerError"
    status = 400
    namespace = _DYNAMODB

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields

    def document(self) -> dict[str, Any]:
        """Return the body of the response."""
        word = "message" if self.namespace == _CORAL else "Message"
        return {"__type": self.namespace + self.code, word: str(self), **self.fields}


class ValidationError(DynamoDBError):
    """The request itself is wrong."""

    code = "ValidationException"
    namespace = _CORAL


class SerializationError(DynamoDBError):
    """The request is not JSON of the right shape."""

    code = "SerializationException"


class UnknownOperation(DynamoDBError):
    """An operation that is not served here."""

    code = "UnknownOperationException"


class ConditionalCheckFailed(DynamoDBError):
    """The condition did not hold. `Item`: the item that is there, if the request asked for it."""

    code = "ConditionalCheckFailedException"

    def __init__(self, old: dict[str, Any] | None = None) -> None:
        super().__init__("The conditional request failed", **({"Item": old} if old else {}))


class TransactionCanceled(DynamoDBError):
    """The transaction was cancelled. Each action has a reason; its code is `None` if the action would have
    passed."""

    code = "TransactionCanceledException"

    def __init__(self, reasons: list[dict[str, Any]]) -> None:
        codes = ", ".join(reason["Code"] for reason in reasons)
        text = (
            "Transaction cancelled, please refer cancellation reasons for specific reasons "
            f"[{codes}]"
        )
        super().__init__(text, CancellationReasons=reasons)


class IdempotentParameterMismatch(DynamoDBError):
    """The ClientRequestToken was used for another request."""

    code = "IdempotentParameterMismatchException"

    def __init__(self) -> None:
        super().__init__("The provided client token is already in use with a different request")


class ResourceNotFound(DynamoDBError):
    """No such table."""

    code = "ResourceNotFoundException"

    def __init__(self, message: str = "Requested resource not found") -> None:
        super().__init__(message)


class ResourceInUse(DynamoDBError):
    """The table is there already."""

    code = "ResourceInUseException"
