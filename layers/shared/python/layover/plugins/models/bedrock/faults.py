"""Bedrock's errors and their meaning
(https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html)."""

from collections.abc import Mapping
from typing import Any

from layover.errors import ModelError
from layover.plugins.models.faults import BRIEFLY, ProviderFault, from_status

_STATUSES = {
    "AccessDeniedException": 403,
    "ExpiredTokenException": 401,
    "IncompleteSignatureException": 401,
    "InternalServerException": 500,
    "InvalidSignatureException": 401,
    "MissingAuthenticationTokenException": 401,
    "ModelErrorException": 502,
    "ModelNotReadyException": 429,
    "ModelStreamErrorException": 502,
    "ModelTimeoutException": 408,
    "ResourceNotFoundException": 404,
    "ServiceQuotaExceededException": 429,
    "ServiceUnavailableException": 503,
    "ThrottlingException": 429,
    "UnrecognizedClientException": 401,
    "ValidationException": 400,
}
"""The status that HTTP has for each error. Bedrock itself sends 424 for a model that failed, 400 for a quota,
403 for a bad signature."""

_GUIDE = "docs/deploy/bedrock.md"
_TO_DO = {
    "AccessDeniedException": "name the model in the stage's `model` or `models`, so that the role may ask "
    f"it, and see that the account has access to it: {_GUIDE}",
    "ExpiredTokenException": "renew the credentials",
    "ServiceQuotaExceededException": "ask AWS for a higher quota of this model",
    "UnrecognizedClientException": "look at the access key",
}


def refused(status: int, body: object, headers: Mapping[str, str]) -> ProviderFault:
    """An answer with an error status. `body`: decoded JSON, or the text."""
    error_type = headers.get("x-amzn-errortype") or _of(body, "__type")
    return failed(str(error_type).rpartition("#")[2].partition(":")[0], body, status, headers)


def failed(
    code: str, body: object, status: int = 500, headers: Mapping[str, str] | None = None
) -> ProviderFault:
    """An error by its name, in an answer or inside a stream."""
    message = str(_of(body, "message") or _of(body, "Message") or _of(body, "originalMessage"))
    detail: object = {"message": message} if message else body
    fault = from_status(_status(code, body, status), detail, headers or {})
    if code == "ServiceQuotaExceededException":
        fault.is_transient = False
    if code in ("ServiceQuotaExceededException", "ValidationException"):
        fault.of_settings = "model identifier" in message or code != "ValidationException"
    if code in ("ModelErrorException", "ModelStreamErrorException"):
        fault.most_attempts = BRIEFLY
    to_do = _TO_DO.get(code)
    if "on-demand throughput" in message:
        to_do = f"name an inference profile, like bedrock/eu.anthropic.…: {_GUIDE}"
    if to_do:
        fault.add(f" ({to_do})")
    return fault


def unsigned(why: str) -> ProviderFault:
    """Return the fault of a request that could not be signed for now: nothing was sent."""
    error = ModelError(f"No AWS credentials: {why}", type="AuthenticationError")
    return ProviderFault(error, is_transient=True)


def _status(code: str, body: object, status: int) -> int:
    """Return the status. A model's own status counts if it is one that passes."""
    status_name = _STATUSES.get(code, status)
    original = _of(body, "originalStatusCode")
    if status_name == 502 and isinstance(original, int) and (original == 429 or original >= 500):
        return original
    return status_name


def _of(body: object, name: str) -> Any:
    return body.get(name, "") if isinstance(body, Mapping) else ""
