"""Log lines, one JSON object each, with the ids that they belong to.

Ids stay with one invocation: they are in a context that its tasks and threads share and that ends when it
returns. Nothing is kept outside an invocation."""

import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

LOGGER = "layover"
H = TypeVar("H", bound=Callable[..., Any])

_ids: ContextVar[dict[str, str] | None] = ContextVar("layover_log_ids", default=None)


_FRAMES = 12
"""The number of frames of a traceback that are logged, the innermost ones."""


def where(error: BaseException) -> list[str]:
    """Return `FILE:LINE FUNCTION` for each frame, outermost first. The error's message is left out: it may be
    a user's text."""
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    ]


@contextmanager
def bind_ids(**ids: str | None) -> Iterator[None]:
    """Name these ids in every line that is logged inside, in addition to those that are named outside."""
    token = _ids.set({**(_ids.get() or {}), **{k: v for k, v in ids.items() if v}})
    try:
        yield
    finally:
        _ids.reset(token)


def name(**ids: str) -> None:
    """Name these ids from here to the end of the invocation. An id that is named already stays: the first one
    is the invocation's own."""
    if (now := _ids.get()) is not None:
        now.update({**ids, **now})


def bound_ids() -> Mapping[str, str]:
    """Return the fields of every line that is logged now."""
    return dict(_ids.get() or {})


def ids_of(event: Any, context: Any) -> dict[str, str | None]:
    """Return an invocation's ids. `request_id`: API Gateway's, which its client is told, else Lambda's;
    `function_request_id`: always Lambda's."""
    fields = event if isinstance(event, Mapping) else {}
    function_request_id = getattr(context, "aws_request_id", None)
    gateway = fields.get("requestContext")
    gateway_id = gateway.get("requestId") if isinstance(gateway, Mapping) else None
    run_id = fields.get("run_id")
    return {
        "function_request_id": function_request_id,
        "request_id": str(gateway_id) if gateway_id else function_request_id,
        "run_id": run_id if isinstance(run_id, str) else None,
    }


def with_ids(handler: H, begin: Callable[[], object]) -> H:
    """Return a Lambda handler whose log lines name the ids of its invocation. `begin`: sets the lines up."""

    @wraps(handler)
    def invoke(event: Any, context: Any) -> Any:
        with suppress(
            ValueError
        ):  # an error in the environment: the next code that reads it reports it
            begin()
        with bind_ids(**ids_of(event, context)):
            return handler(event, context)

    return cast(H, invoke)


def write_json(service: str, level: str) -> None:
    """Write JSON lines on stdout from this level on, with the deployment as `service`."""
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LambdaPowertoolsFormatter(service=service, utc=True, use_rfc3339=True))
    handler.addFilter(_name_ids)
    # Powertools' own Logger would not do: its logger is named after the service, and nothing here logs to
    # that.
    logger = logging.getLogger(LOGGER)
    logger.setLevel(level.upper())
    logger.handlers = [handler]
    # Lambda's handler of the root logger would write each line again, as plain text.
    logger.propagate = False


def _name_ids(record: logging.LogRecord) -> bool:
    """Add the bound ids to a record. The record's own `extra` wins."""
    for key, value in bound_ids().items():
        if getattr(record, key, None) is None:
            setattr(record, key, value)
    return True
