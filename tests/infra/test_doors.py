"""The ways in: the HTTP API, the WebSocket API, and the requests that may pass."""

import json
import re
from typing import Any

import pytest

from layover.desk.cdk.calls import CALLS
from layover.desk.cdk.settings import FUNCTIONS, Settings
from layover.desk.cli.login import PORT
from layover.desk.cli.second_factor import SCOPE
from layover.values.deployment.access import (
    AUDITORS,
    CONSOLE_FILES,
    DECIDE,
    DECIDE_METHODS,
    DOCS,
    OPEN_PATHS,
    OPEN_POSTS,
    OPERATORS,
    READERS,
)
from layover.values.deployment.pages import READ, SENT
from support.aws.templates import Synthesized

PUSHING = sorted(name for name, calls in CALLS.items() if calls.pushes)


@pytest.fixture(params=["vpc", "plain"])
def stack(request: pytest.FixtureRequest) -> Synthesized:
    """Cognito, and a provider of the deployer's own."""
    found: Synthesized = request.getfixturevalue(request.param)
    return found


def apis(stack: Synthesized, protocol: str) -> dict[str, dict[str, Any]]:
    """Properties of the APIs of a protocol, by logical id."""
    found = {name: r["Properties"] for name, r in stack.of_type("AWS::ApiGatewayV2::Api").items()}
    return {name: p for name, p in found.items() if p["ProtocolType"] == protocol}


def routes(stack: Synthesized, protocol: str) -> dict[str, dict[str, Any]]:
    """Properties of its routes, by route key."""
    (api,) = apis(stack, protocol)
    found = [r["Properties"] for r in stack.of_type("AWS::ApiGatewayV2::Route").values()]
    return {p["RouteKey"]: p for p in found if p["ApiId"] == {"Ref": api}}


def open_routes(stack: Synthesized) -> set[str]:
    """Keys of the routes that need no token."""
    return {key for key, p in routes(stack, "HTTP").items() if p["AuthorizationType"] == "NONE"}


def test_only_the_open_paths_are_open(vpc: Synthesized, plain: Synthesized) -> None:
    links = {f"{method} {DECIDE}" for method in DECIDE_METHODS}
    assert links == {"GET /decide/{token}", "POST /decide/{token}"}
    gets = {f"GET {path}" for path in OPEN_PATHS | {CONSOLE_FILES}}
    always = gets | links | {f"POST {path}" for path in OPEN_POSTS}
    assert open_routes(vpc) == always
    # The documentation is there for whom it is asked for.
    assert open_routes(plain) == always - {f"GET {DOCS}"}
    for stack, docs in ((vpc, "True"), (plain, "False")):
        assert stack.functions()["api"]["Environment"]["Variables"]["LAYOVER_DOCS"] == docs


def test_open_paths_answer_twice_a_second_and_links_that_decide_ten_times(
    stack: Synthesized,
) -> None:
    """A stage whose routes are not there yet cannot be made."""
    found = stack.of_type("AWS::ApiGatewayV2::Stage").values()
    (stage,) = (r for r in found if r["Properties"]["StageName"] == "$default")
    settings = stage["Properties"]["RouteSettings"]
    assert settings.keys() == open_routes(stack)
    links = {"GET /decide/{token}", "POST /decide/{token}", "POST /channels/slack"}
    for key, limits in settings.items():
        assert limits["ThrottlingRateLimit"] == (10 if key in links else 2), key
        assert limits["ThrottlingBurstLimit"] == 100, key
    there = stack.of_type("AWS::ApiGatewayV2::Route")
    before = {there[n]["Properties"]["RouteKey"] for n in stage["DependsOn"] if n in there}
    assert settings.keys() == before


def test_request_waits_for_a_sleeping_database_as_long_as_it_can_be_answered(
    stack: Synthesized,
) -> None:
    functions = stack.functions()
    waits = {
        name: int(f["Environment"]["Variables"].get("LAYOVER_DATABASE_WAKING_S", 0))
        for name, f in functions.items()
    }
    assert {name: s for name, s in waits.items() if s} == {"api": 20, "streams": 20, "turn": 90}
    assert waits["api"] + 5 < functions["api"]["Timeout"] < 30


def test_everything_else_needs_a_token_with_the_scope(stack: Synthesized) -> None:
    scope = "use:layover" if "use:layover" in json.dumps(stack.template) else "layover/use"
    guarded = {k: p for k, p in routes(stack, "HTTP").items() if p["AuthorizationType"] != "NONE"}
    assert guarded.keys() == {f"{m} /{{proxy+}}" for m in ("GET", "POST", "PUT", "PATCH", "DELETE")}
    for route in guarded.values():
        assert route["AuthorizationType"] == "JWT"
        assert route["AuthorizationScopes"] == [scope]
    assert stack.functions()["api"]["Environment"]["Variables"]["LAYOVER_SCOPE"] == scope


def test_preflights_reach_no_authorizer(stack: Synthesized) -> None:
    for key in routes(stack, "HTTP"):
        assert key.split(" ")[0] not in ("OPTIONS", "ANY", "$default")


def test_browsers_of_named_origins_may_call(vpc: Synthesized) -> None:
    (api,) = apis(vpc, "HTTP").values()
    cors = api["CorsConfiguration"]
    assert cors["AllowOrigins"] == ["https://a.example", "https://b.example"]
    assert {*SENT} == {*cors["AllowHeaders"]}
    assert {*READ} == {*cors["ExposeHeaders"]}
    assert not any("resource" in header for header in cors["AllowHeaders"])
    assert not cors.get("AllowCredentials")


def test_no_browser_may_call_unless_origins_are_named(plain: Synthesized) -> None:
    (api,) = apis(plain, "HTTP").values()
    assert "CorsConfiguration" not in api


def test_tokens_are_for_the_clients_of_this_pool(vpc: Synthesized) -> None:
    clients = {json.dumps({"Ref": name}) for name in vpc.of_type("AWS::Cognito::UserPoolClient")}
    authorizer = vpc.one("AWS::ApiGatewayV2::Authorizer")
    assert authorizer["AuthorizerType"] == "JWT"
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    assert {json.dumps(a) for a in authorizer["JwtConfiguration"]["Audience"]} == clients


def test_own_provider_is_taken_at_its_word(plain: Synthesized) -> None:
    jwt = plain.one("AWS::ApiGatewayV2::Authorizer")["JwtConfiguration"]
    assert jwt == {"Issuer": "https://id.example/", "Audience": ["https://layover.example"]}
    variables = plain.functions()["api"]["Environment"]["Variables"]
    assert variables["LAYOVER_ISSUER"] == "https://id.example/"
    assert variables["LAYOVER_CLIENT_ID"] == "people"
    assert plain.of_type("AWS::Cognito::UserPool") == {}


def test_pages_may_ask_the_host_of_tokens_and_the_bucket_and_no_other(
    plain: Synthesized, vpc: Synthesized
) -> None:
    def named(stack: Synthesized) -> str:
        variables = stack.functions()["api"]["Environment"]["Variables"]
        return json.dumps(variables["LAYOVER_PAGE_SOURCES"])

    assert "https://tokens.example/ https://" in named(plain)
    assert "amazoncognito.com/ https://" in named(vpc)
    for stack in (plain, vpc):
        assert ".s3." in named(stack)
        assert "*" not in named(stack)


def test_strangers_make_no_users(vpc: Synthesized) -> None:
    pool = vpc.one("AWS::Cognito::UserPool")
    assert pool["AdminCreateUserConfig"]["AllowAdminCreateUserOnly"] is True


def test_people_sign_in_without_a_secret_and_may_not_act_for_others(vpc: Synthesized) -> None:
    clients = [r["Properties"] for r in vpc.of_type("AWS::Cognito::UserPoolClient").values()]
    people, machine = sorted(clients, key=lambda c: bool(c["GenerateSecret"]))
    assert people["GenerateSecret"] is False
    assert people["AllowedOAuthFlows"] == ["code"]
    assert "act-as" not in json.dumps(people["AllowedOAuthScopes"])
    assert Settings().login_callback in people["CallbackURLs"]
    assert machine["AllowedOAuthFlows"] == ["client_credentials"]
    assert "act-as" in json.dumps(machine["AllowedOAuthScopes"])


def people(stack: Synthesized) -> dict[str, Any]:
    """The public client."""
    clients = [r["Properties"] for r in stack.of_type("AWS::Cognito::UserPoolClient").values()]
    (found,) = (c for c in clients if not c["GenerateSecret"])
    return dict(found)


def test_passwords_go_through_the_pools_own_pages_alone(vpc: Synthesized) -> None:
    """Nothing said would be SRP."""
    assert people(vpc)["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]


def test_second_factor_that_is_optional_can_be_enrolled(vpc: Synthesized) -> None:
    """Cognito's pages do that only where it is required: elsewhere its API, by a token of this scope."""
    pool = vpc.one("AWS::Cognito::UserPool")
    assert (pool["MfaConfiguration"], pool["EnabledMfas"]) == ("OPTIONAL", ["SOFTWARE_TOKEN_MFA"])
    assert SCOPE.split()[1] in people(vpc)["AllowedOAuthScopes"]


def test_second_factor_is_the_deployers_choice(gateway: Synthesized) -> None:
    pool = gateway.one("AWS::Cognito::UserPool")
    assert pool["MfaConfiguration"] == "OFF"
    assert "EnabledMfas" not in pool
    assert SCOPE.split()[1] not in people(gateway)["AllowedOAuthScopes"]


def test_a_backend_operates_and_audits_nothing_unless_the_settings_say_so(
    vpc: Synthesized,
) -> None:
    clients = [r["Properties"] for r in vpc.of_type("AWS::Cognito::UserPoolClient").values()]
    (machine,) = (c for c in clients if c["GenerateSecret"])
    text = json.dumps(machine["AllowedOAuthScopes"])
    scopes = {
        name for name in ("use", "act-as", "operate", "audit", "read-content") if f"/{name}" in text
    }
    assert scopes == {"use", "act-as"}


def test_own_pages_get_their_users_back(vpc: Synthesized, gateway: Synthesized) -> None:
    urls = ["https://a.example/back", "http://localhost:5173/", "shop://signed-in"]
    client = people(vpc)
    assert client["CallbackURLs"][-3:] == client["LogoutURLs"][-3:] == urls
    assert len(client["CallbackURLs"]) == 5
    assert len(people(gateway)["CallbackURLs"]) == 2


def made_groups(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """The groups of the pool, by name."""
    groups = stack.of_type("AWS::Cognito::UserPoolGroup").values()
    return {group["Properties"]["GroupName"]: group for group in groups}


def test_no_groups_are_made_in_a_pool_that_is_not_the_stacks_own(
    plain: Synthesized, guest: Synthesized
) -> None:
    for stack in (plain, guest):
        assert made_groups(stack) == {}


def test_no_groups_are_made_in_the_pool_of_an_app_of_ones_own(
    everything_given: Synthesized,
) -> None:
    assert made_groups(everything_given) == {}


def test_groups_of_approvals_and_roles_are_there_without_members(
    vpc: Synthesized,
) -> None:
    assert made_groups(vpc).keys() == {OPERATORS, AUDITORS, READERS, "board"}
    assert vpc.of_type("AWS::Cognito::UserPoolUserToGroupAttachment") == {}


def test_groups_of_the_agents_of_ones_own_are_there(ten_lines: Synthesized) -> None:
    assert made_groups(ten_lines).keys() == {OPERATORS, AUDITORS, READERS, "of-agents"}


def test_groups_outlive_the_stack_as_their_pool_does(
    vpc: Synthesized, gateway: Synthesized
) -> None:
    for stack, policy in ((vpc, "Delete"), (gateway, "RetainExceptOnCreate")):
        (pool,) = stack.of_type("AWS::Cognito::UserPool").values()
        assert pool["DeletionPolicy"] == policy
        assert {group["DeletionPolicy"] for group in made_groups(stack).values()} == {policy}


def test_outputs_name_the_pool_and_its_clients(
    vpc: Synthesized, gateway: Synthesized, plain: Synthesized
) -> None:
    names = ("UserPoolId", "PeopleClientId", "MachineClientId", "TokenUrl")
    outputs = {
        form: [name for name in names if name in stack.template["Outputs"]]
        for form, stack in (("vpc", vpc), ("gateway", gateway), ("plain", plain))
    }
    assert outputs == {
        "vpc": [*names],
        "gateway": ["UserPoolId", "PeopleClientId", "TokenUrl"],
        "plain": ["PeopleClientId", "TokenUrl"],
    }
    url = json.dumps(vpc.template["Outputs"]["TokenUrl"]["Value"])
    assert ".amazoncognito.com/oauth2/token" in url


def groups_of_roles(stack: Synthesized, function: str) -> tuple[object, ...]:
    """The groups of operators, auditors and readers that a function knows."""
    variables = stack.functions()[function]["Environment"]["Variables"]
    roles = ("OPERATE", "AUDIT", "READ_CONTENT")
    return tuple(variables.get(f"LAYOVER_{role}_GROUP") for role in roles)


@pytest.mark.parametrize("function", ["api", "streams"])
def test_groups_of_a_foreign_issuer_make_no_operators_unless_they_are_named(
    plain: Synthesized, function: str
) -> None:
    assert groups_of_roles(plain, function) == ("platform", None, None)


@pytest.mark.parametrize("function", ["api", "streams"])
def test_groups_of_a_foreign_pool_make_no_operators(
    everything_given: Synthesized, function: str
) -> None:
    assert groups_of_roles(everything_given, function) == (None, None, None)


@pytest.mark.parametrize("function", ["api", "streams"])
def test_groups_of_the_stacks_own_users_make_operators_and_auditors(
    gateway: Synthesized, guest: Synthesized, function: str
) -> None:
    for stack in (gateway, guest):
        assert groups_of_roles(stack, function) == (OPERATORS, AUDITORS, READERS)


def test_pages_ask_an_own_provider_for_the_scopes_by_its_own_names(
    plain: Synthesized, vpc: Synthesized
) -> None:
    scopes = [
        stack.functions()["api"]["Environment"]["Variables"].get("LAYOVER_LOGIN_SCOPE")
        for stack in (plain, vpc)
    ]
    assert scopes == ["api://layover/use", None]


def test_login_listens_where_the_pool_sends_browsers_back() -> None:
    assert Settings().login_callback == f"http://localhost:{PORT}/callback"


def test_api_knows_how_many_requests_may_wait(stack: Synthesized) -> None:
    api = stack.functions()["api"]
    waits = int(api["Environment"]["Variables"]["LAYOVER_MAX_WAITS"])
    assert 0 < waits < api.get("ReservedConcurrentExecutions", 10)


def test_long_polls_take_a_bounded_share(vpc: Synthesized, plain: Synthesized) -> None:
    assert vpc.functions()["api"]["ReservedConcurrentExecutions"] == 100
    reserving = [n for n, f in vpc.functions().items() if "ReservedConcurrentExecutions" in f]
    assert reserving == ["api"]
    assert "ReservedConcurrentExecutions" not in plain.functions()["api"]


def stages(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """Properties of both stages, by name."""
    found = [r["Properties"] for r in stack.of_type("AWS::ApiGatewayV2::Stage").values()]
    return {p["StageName"]: p for p in found}


def test_every_way_in_is_throttled(stack: Synthesized) -> None:
    assert stages(stack).keys() == {"$default", "live"}
    for stage in stages(stack).values():
        assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == 50
        assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == 100


def test_requests_are_logged_without_query_strings_and_tokens(stack: Synthesized) -> None:
    logged = json.loads(stages(stack)["$default"]["AccessLogSettings"]["Format"])
    assert "requestId" in logged
    text = json.dumps(logged).lower()
    assert not any(word in text for word in ("query", "authorization", "$context.requesturi"))


def test_path_of_a_link_is_in_no_access_log(stack: Synthesized) -> None:
    """It is the secret by which its person decides."""
    formats = [
        json.dumps(r["Properties"][name]["Format"])
        for kind, name in (
            ("AWS::ApiGatewayV2::Stage", "AccessLogSettings"),
            ("AWS::ApiGateway::Stage", "AccessLogSetting"),
        )
        for r in stack.of_type(kind).values()
        if name in r["Properties"]
    ]
    assert formats
    for text in formats:
        assert not re.search(r"\$context\.(path|requestOverride|domainName/|http\.path)\b", text), (
            text
        )
    (http,) = (text for text in formats if "routeKey" in text)
    assert "$context.requestId" in http


def test_sockets_need_no_setting_of_the_whole_account(stack: Synthesized) -> None:
    """Their access logs would: in an account without it the deployment would fail."""
    assert "AccessLogSettings" not in stages(stack)["live"]
    assert stack.of_type("AWS::ApiGateway::Account") == {}


def test_sockets_have_their_three_routes(stack: Synthesized) -> None:
    found = routes(stack, "WEBSOCKET")
    assert found.keys() == {"$connect", "$disconnect", "$default"}
    integrations = stack.of_type("AWS::ApiGatewayV2::Integration")
    for route in found.values():
        target = route["Target"]["Fn::Join"][1][1]["Ref"]
        uri = json.dumps(integrations[target]["Properties"]["IntegrationUri"])
        (alias,) = (name for name in stack.of_type("AWS::Lambda::Alias") if f'"{name}"' in uri)
        assert stack.function_behind(alias) == "sockets"


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_only_what_writes_events_may_send_them(stack: Synthesized, name: str) -> None:
    variables = stack.functions()[name]["Environment"]["Variables"]
    actions = json.dumps([s["Action"] for s in stack.statements(name)])
    assert ("execute-api:ManageConnections" in actions) == (name in PUSHING)
    assert ("LAYOVER_SOCKET_ENDPOINT" in variables) == (name in PUSHING)


def test_sockets_are_those_of_this_stack(stack: Synthesized) -> None:
    (api,) = apis(stack, "WEBSOCKET")
    for statement in stack.statements("turn"):
        if "ManageConnections" in json.dumps(statement["Action"]):
            text = json.dumps(statement["Resource"])
            assert json.dumps({"Ref": api}) in text
            assert "/live/*/@connections/*" in text
    endpoint = stack.functions()["turn"]["Environment"]["Variables"]["LAYOVER_SOCKET_ENDPOINT"]
    assert json.dumps({"Ref": api}) in json.dumps(endpoint)


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://id.example"},
        {"budget_usd": "5"},
        {"budget_usd": "-1"},
        {"stage": "Dev"},
        {"sign_up": "true"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"audience|alarms_email|greater than 0|pattern|sign_up"):
        Settings.from_context(wrong | {"stages": "tests/infra"})


@pytest.mark.parametrize("limit", [{"daily_tokens": "100000"}, {"daily_cost_usd": "0.5"}], ids=str)
def test_strangers_may_sign_up_where_a_day_has_a_limit(limit: dict[str, str]) -> None:
    assert Settings.from_context(limit | {"sign_up": "true", "stages": "tests/infra"}).sign_up
