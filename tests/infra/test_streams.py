"""The way in to streams: the requests that reach the function, and the form of its response."""

import json
from typing import Any

import pytest

from layover.values.deployment.access import CHAT_ROUTES, STREAM_ROUTES, TICKETED, TICKETED_ROUTE
from support.aws.templates import Synthesized

ISSUERS = ["vpc", "plain"]
"""With the stack's own user pool, and with a provider of the deployer's."""


@pytest.fixture(params=ISSUERS)
def stack(request: pytest.FixtureRequest) -> Synthesized:
    found: Synthesized = request.getfixturevalue(request.param)
    return found


def paths(stack: Synthesized) -> dict[str, str]:
    """Path of each resource by its logical id."""
    found = {n: r["Properties"] for n, r in stack.of_type("AWS::ApiGateway::Resource").items()}

    def path(name: str) -> str:
        parent = found[name]["ParentId"].get("Ref")
        return f"{path(parent) if parent else ''}/{found[name]['PathPart']}"

    return {name: path(name) for name in found}


def methods(stack: Synthesized) -> dict[tuple[str, str], dict[str, Any]]:
    """All methods but preflights, by verb and path."""
    at = paths(stack)
    found = [r["Properties"] for r in stack.of_type("AWS::ApiGateway::Method").values()]
    return {
        (m["HttpMethod"], at[m["ResourceId"]["Ref"]]): m
        for m in found
        if m["HttpMethod"] != "OPTIONS"
    }


def test_every_stream_needs_a_token_with_the_scope(vpc: Synthesized) -> None:
    guarded = {k: m for k, m in methods(vpc).items() if m["AuthorizationType"] != "NONE"}
    assert guarded.keys() == {*STREAM_ROUTES, *CHAT_ROUTES}
    for method in guarded.values():
        assert method["AuthorizationType"] == "COGNITO_USER_POOLS"
        assert method["AuthorizationScopes"] == ["layover/use"]
    authorizer = vpc.one("AWS::ApiGateway::Authorizer")
    assert authorizer["IdentitySource"] == "method.request.header.Authorization"
    (pool,) = vpc.of_type("AWS::Cognito::UserPool")
    assert json.dumps({"Ref": pool}) in json.dumps(authorizer["ProviderARNs"])


def test_a_ticket_opens_one_route_and_nothing_comes_through_without(stack: Synthesized) -> None:
    unguarded = {k: m for k, m in methods(stack).items() if m["AuthorizationType"] == "NONE"}
    ((key, method),) = unguarded.items()
    assert key == ("GET", f"{TICKETED}{TICKETED_ROUTE}")
    assert method["RequestParameters"] == {"method.request.querystring.ticket": True}
    validator = stack.one("AWS::ApiGateway::RequestValidator")
    assert validator["ValidateRequestParameters"] is True


def test_tokens_of_another_provider_open_no_stream(plain: Synthesized) -> None:
    """A REST API verifies those of Cognito alone: there a stream begins with a ticket."""
    assert plain.of_type("AWS::ApiGateway::Authorizer") == {}
    assert {path for _, path in methods(plain)} == {f"{TICKETED}{TICKETED_ROUTE}"}


def test_responses_are_streamed_for_as_long_as_the_function_may_run(stack: Synthesized) -> None:
    for method in methods(stack).values():
        integration = method["Integration"]
        assert integration["ResponseTransferMode"] == "STREAM"
        assert integration["TimeoutInMillis"] == 900_000
        assert "response-streaming-invocations" in json.dumps(integration["Uri"])
    assert stack.functions()["streams"]["Timeout"] == 900
    (api,) = stack.of_type("AWS::ApiGateway::RestApi").values()
    assert api["Properties"]["EndpointConfiguration"] == {"Types": ["REGIONAL"]}


def test_streams_are_throttled_and_need_no_setting_of_the_whole_account(
    stack: Synthesized,
) -> None:
    (settings,) = stack.one("AWS::ApiGateway::Stage")["MethodSettings"]
    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (50, 100)
    assert stack.of_type("AWS::ApiGateway::Account") == {}


def test_only_the_function_that_streams_starts_another_runtime_client(stack: Synthesized) -> None:
    # Seconds: for no worker that only collects.
    from layover.desk.cdk.constructs.functions import WRAPPER

    found = {n: f["Environment"]["Variables"].get(WRAPPER) for n, f in stack.functions().items()}
    assert {n: w for n, w in found.items() if w} == {
        "streams": "/var/task/functions/streams/bootstrap"
    }


def test_clients_learn_where_streams_are(stack: Synthesized) -> None:
    url = stack.functions()["api"]["Environment"]["Variables"]["LAYOVER_STREAM_URL"]
    (api,) = stack.of_type("AWS::ApiGateway::RestApi")
    assert json.dumps({"Ref": api}) in json.dumps(url)


def test_pages_of_named_origins_and_of_the_api_itself_may_read(vpc: Synthesized) -> None:
    origins = json.dumps(vpc.functions()["streams"]["Environment"]["Variables"]["LAYOVER_ORIGINS"])
    assert "https://a.example,https://b.example" in origins
    assert "ApiEndpoint" in origins
    assert "*" not in origins


def test_browsers_can_read_why_api_gateway_itself_refuses(stack: Synthesized) -> None:
    """Without these headers a page learns of an expired token only as an error of the network."""
    refusals = {
        r["Properties"]["ResponseType"]: r["Properties"]
        for r in stack.of_type("AWS::ApiGateway::GatewayResponse").values()
    }
    assert refusals.keys() == {"DEFAULT_4XX", "DEFAULT_5XX"}
    for refusal in refusals.values():
        headers = refusal["ResponseParameters"]
        assert headers["gatewayresponse.header.Access-Control-Allow-Origin"] == "'*'"
        told = headers["gatewayresponse.header.Access-Control-Expose-Headers"]
        assert {"www-authenticate", "retry-after"} <= {*told.strip("'").split(",")}
        assert "gatewayresponse.header.Access-Control-Allow-Credentials" not in headers
        # Each kind of refusal keeps its own status.
        assert "StatusCode" not in refusal
