"""The resolver: routes, and the answers to errors."""

import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import ResponseBuilder, Route
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent

from functions.api import (
    routes_ag_ui,
    routes_approvals,
    routes_audit,
    routes_channels,
    routes_chat,
    routes_connections,
    routes_console,
    routes_decide,
    routes_files,
    routes_mcp,
    routes_me,
    routes_memory,
    routes_meta,
    routes_operate,
    routes_runs,
    routes_sockets,
    routes_threads,
    routes_usage,
)
from functions.api.auth import caller
from functions.api.call import Call, Host
from functions.api.problems import (
    LOG,
    MethodNotAllowed,
    answer_error,
    has_problem_title,
    internal_error,
    wrong_fields,
)
from functions.api.request import (
    content_type,
    parse_json,
    prepare_event,
    takes_gzip,
    traceparent,
)
from functions.api.routes_decide import SECRET_HEADERS
from functions.api.streaming import shared_with, ticketed
from layover import logs
from layover.errors import (
    AgentsNotLoaded,
    InvalidRequest,
    LayoverError,
    NotFound,
    RetryableError,
    unknown_name,
)
from layover.values.deployment.access import Actor, is_decision, is_open

logger = logging.getLogger("layover")
_LOG_IDS = {
    "thread_id": re.compile(r"/threads/(thread_\w{1,64})(?:/|\Z)", re.ASCII),
    "run_id": re.compile(r"/runs/(run_\w{1,64})(?:/|\Z)", re.ASCII),
}
"""Path parameters that log lines may name; callers cannot make them up."""
_CALL_ID = "<tool_call_id>"
_OF_CALLS = ("approve", "deny", "resume", "extend", "result")


class Resolver(APIGatewayHttpResolver):
    """Routes whose ids may hold any character: paths come percent-decoded, providers choose call ids, and any
    text may stand where a link has its token."""

    @staticmethod
    def _compile_regex(rule: str, base_regex: str = "^{}$") -> re.Pattern[str]:
        # What a call is asked for stands behind its id, and is no part of one.
        end = "".join(rf"(?<!/{word})" for word in _OF_CALLS) if rule.endswith(_CALL_ID) else ""
        pattern = re.sub(r"<(tool_call_id|token)>", r"(?P<\1>.+)", rule) + end
        pattern = re.sub(r"(?<!\?P)<(\w+)>", r"(?P<\1>[^/]+)", pattern)
        return re.compile(f"{pattern}\\Z", re.DOTALL)

    def _call_route(self, route: Route, route_arguments: dict[str, str]) -> ResponseBuilder[Any]:
        is_ours = route in self._static_routes or route in self._dynamic_routes
        refused = _unknown_parameters(route, self.current_event) if is_ours else None
        if refused is not None and (answered := self._call_exception_handler(refused, route)):
            return answered
        # Any other route is the framework's, for paths that have none.
        return super()._call_route(route, route_arguments)


def _unknown_parameters(route: Route, event: BaseProxyEvent) -> InvalidRequest | None:
    """Return the refusal of query parameters that the call does not have: one that is mistyped would be
    passed over, and the answer another one than was asked for. Open paths take any: pages and monitors add
    their own."""
    if not route.include_in_schema or is_open(event.path):
        return None
    choices = [parameter.alias for parameter in route.dependant.query_params]
    unknown = [name for name in event.query_string_parameters or {} if name not in choices]
    errors = [
        {
            "loc": ["query", name],
            "msg": unknown_name("query parameter", name, choices),
            "type": "unknown_parameter",
        }
        for name in unknown
    ]
    return InvalidRequest("the call has no such query parameter", errors) if errors else None


def answer(
    event: Mapping[str, Any],
    context: Any,
    host: Host,
    *,
    streams: bool = False,
    now: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Return the answer to one API Gateway event (HTTP API, payload 2.0). Never raises. If the function
    `streams`, the body may be an asynchronous iterator of bytes. `now`: the seconds by which the time of the
    request is counted."""
    result = _answer(event, context, host, streams, now)
    if is_decision(str(event.get("rawPath"))):
        # Also on problems: nothing keeps a link's answer, and nothing tells the link to others.
        result["headers"] = {**result["headers"], **SECRET_HEADERS}
    if streams and (cors_headers := shared_with(event, host)):
        result["headers"] = {**result["headers"], **cors_headers}
    return result


def _answer(
    event: Mapping[str, Any], context: Any, host: Host, streams: bool, now: Callable[[], float]
) -> dict[str, Any]:
    app = resolver()
    try:
        request = prepare_event(event)
        path = APIGatewayProxyEventV2(request).path
        if not is_decision(path):
            logs.name(**{id: match[1] for id, of in _LOG_IDS.items() if (match := of.search(path))})
        settings = host.runtime().settings
        call = _call(request, path, host, streams, now)
        # `request` has none: every other route takes JSON under any name.
        call.content_type = content_type(event)
        app.context.update(
            call=call,
            request_id=_request_id(event),
            log=settings.log_file or LOG,
        )
        result = app.resolve(request, context)
        return result if call.pieces is None else {**result, "body": call.pieces}
    except LayoverError as error:
        return _result(_known_error(error, _request_id(event)))
    except Exception as error:
        return _result(_report_unexpected(error, _request_id(event)))


def _call(
    request: Mapping[str, Any], path: str, host: Host, streams: bool, now: Callable[[], float]
) -> Call:
    gzip = takes_gzip(request)
    if streams and (ticket := ticketed(request, path, host)):
        ends_at = ticket.token_expires_at
        return Call(host, Actor(sub=ticket.owner), gzip, streams, ends_at, now=now)
    asker = caller(request, path, host.runtime().settings.access)
    if asker is not None and (context := traceparent(request["headers"])):
        asker = asker.model_copy(update={"traceparent": context})
    return Call(host, asker, gzip, streams, now=now)


@cache
def resolver() -> Resolver:
    """Return the one resolver of this environment."""
    # At DEBUG, which an agent's module may set for all loggers, the framework writes down the parts of paths:
    # a link that decides is a secret.
    logging.getLogger("aws_lambda_powertools").setLevel(logging.WARNING)
    app = Resolver(enable_validation=True, json_body_deserializer=parse_json)
    for module in (
        routes_meta,
        routes_console,
        routes_threads,
        routes_runs,
        routes_approvals,
        routes_audit,
        routes_operate,
        routes_memory,
        routes_usage,
        routes_files,
        routes_me,
        routes_connections,
        routes_decide,
        routes_sockets,
        routes_chat,
        routes_ag_ui,
        routes_mcp,
        routes_channels,
    ):
        app.include_router(module.router)
    _map_errors(app)
    return app


def _map_errors(app: Resolver) -> None:
    def no_route(_: Exception) -> Response[str]:
        methods = _methods(app, app.current_event.path)
        if methods:
            return answer_error(MethodNotAllowed(methods))
        return answer_error(NotFound("there is no such path"))

    def wrong(error: RequestValidationError) -> Response[str]:
        return answer_error(wrong_fields(error.errors(), _body(app.current_event.body)))

    def known_error(error: LayoverError) -> Response[str]:
        return _known_error(error, app.context["request_id"], app.context["log"])

    def unforeseen(error: Exception) -> Response[str]:
        return _report_unexpected(error, app.context["request_id"], app.context["log"])

    app.exception_handler_manager.update_exception_handlers(
        {
            NotFoundError: no_route,
            RequestValidationError: wrong,
            LayoverError: known_error,
            Exception: unforeseen,
        }
    )


def _body(text: str | None) -> Any:
    """Return the body that wrong fields belong to. A route that takes no body reads none, whatever it is."""
    try:
        return parse_json(text) if text else None
    except LayoverError:
        return None


def _methods(app: Resolver, path: str) -> set[str]:
    routes = [*app._static_routes, *app._dynamic_routes]
    return {route.method for route in routes if route.rule.match(path)}


def _known_error(error: LayoverError, request_id: str, log: str = LOG) -> Response[str]:
    if type(error) is RetryableError and isinstance(error.__cause__, RetryableError):
        # For the state machine, the environment gives every passing fault one name.
        error = error.__cause__
    if not has_problem_title(error):
        return _report_unexpected(error, request_id, log)
    if isinstance(error, AgentsNotLoaded):
        _log(error, request_id)
    return answer_error(error, log)


def _report_unexpected(error: Exception, request_id: str, log: str = LOG) -> Response[str]:
    _log(error, request_id)
    return internal_error(request_id, log)


def _log(error: Exception, request_id: str) -> None:
    """Log where it happened, and the message of our own errors: those of others may hold a user's text."""
    logger.error(
        "a request failed",
        extra={
            "request_id": request_id,
            "error": type(error).__name__,
            "says": str(error) if isinstance(error, LayoverError) else None,
            "cause": type(error.__cause__).__name__ if error.__cause__ else None,
            "where": logs.where(error),
        },
    )


def _request_id(event: Mapping[str, Any]) -> str:
    return str((event.get("requestContext") or {}).get("requestId", ""))


def _result(response: Response[str]) -> dict[str, Any]:
    return {
        "statusCode": response.status_code,
        "headers": {k: str(v) for k, v in response.headers.items()},
        "body": response.body,
        "isBase64Encoded": False,
    }
