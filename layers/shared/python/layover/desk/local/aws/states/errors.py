"""Errors of the service's API, and errors that a state machine catches."""

from typing import Any


class StatesError(Exception):
    """An error response of the API. `code` is the exception's name in the SDKs."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class StateFailed(Exception):
    """The error of a state, as Retry and Catch see it."""

    def __init__(self, error: str | None, cause: str | None = None) -> None:
        super().__init__(f"{error}: {cause}")
        self.error = error
        self.cause = cause

    def output(self) -> dict[str, Any]:
        """Return the document that a Catch gets."""
        output_document: dict[str, Any] = {"Error": self.error}
        return output_document if self.cause is None else {**output_document, "Cause": self.cause}

    def is_named(self, names: list[str]) -> bool:
        """Return whether an `ErrorEquals` names the error. States.ALL does not name the machine's own
        errors."""
        if self.error in names:
            return True
        if "States.ALL" in names:
            return self.error not in ("States.DataLimitExceeded", "States.Runtime")
        return "States.TaskFailed" in names and self.error != "States.Timeout"
