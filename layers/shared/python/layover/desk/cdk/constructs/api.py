"""The HTTP API in front of the function `api`."""

import json
from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_apigatewayv2_authorizers import HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.identity import Identity
from layover.desk.cdk.constructs.logs import log_group
from layover.desk.cdk.constructs.versions import allow_first
from layover.desk.cdk.settings import Settings
from layover.values.deployment import pages
from layover.values.deployment.access import (
    CONSOLE_FILES,
    DECIDE,
    DECIDE_METHODS,
    DOCS,
    OPEN_PATHS,
    OPEN_POSTS,
)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""All but OPTIONS: a preflight carries no token, and API Gateway responds to it itself."""
LOGGED = {
    # Neither the query string nor a token: both may hold a user's words or secrets. Nor the path: that of a
    # link which decides is a secret. The route has none of them.
    "requestId": "$context.requestId",
    "method": "$context.httpMethod",
    "route": "$context.routeKey",
    "status": "$context.status",
    "latencyMs": "$context.responseLatency",
    "bytes": "$context.responseLength",
    "ip": "$context.identity.sourceIp",
    "sub": "$context.authorizer.claims.sub",
    "error": "$context.authorizer.error",
    "integrationError": "$context.integrationErrorMessage",
}


class HttpApi(Construct):
    """The HTTP API. It is made before the functions and the user pool, which get its URL; `serve` connects
    both."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self._settings = settings
        self._rates: dict[str, object] = {}
        self.api = gateway.HttpApi(
            self,
            "Api",
            api_name=settings.prefix,
            description="Layover",
            # Its stage is made below: the default one has neither throttling nor access logs.
            create_default_stage=False,
            cors_preflight=gateway.CorsPreflightOptions(
                allow_origins=list(settings.origins),
                allow_methods=[gateway.CorsHttpMethod[method] for method in METHODS],
                allow_headers=list(pages.SENT),
                expose_headers=list(pages.READ),
                max_age=Duration.hours(1),
            )
            if settings.origins
            else None,
        )
        self.url = self.api.api_endpoint
        self.stage = self._stage()

    def serve(self, function: lambda_.IFunction, identity: Identity) -> None:
        """Add the routes. Every path but the open ones needs a token with the scope."""
        integration = HttpLambdaIntegration("Function", function)
        paths = OPEN_PATHS if self._settings.docs else OPEN_PATHS - {DOCS}
        opened = [(gateway.HttpMethod.GET, path) for path in sorted(paths | {CONSOLE_FILES})]
        opened += [(gateway.HttpMethod.POST, path) for path in sorted(OPEN_POSTS)]
        opened += [(gateway.HttpMethod[method], DECIDE) for method in DECIDE_METHODS]
        for method, path in opened:
            routes = self.api.add_routes(path=path, methods=[method], integration=integration)
            is_link = path in OPEN_POSTS | {DECIDE}
            rate = self._settings.link_rate if is_link else self._settings.open_rate
            self._throttle(f"{method.value} {path}", routes, rate)
        self.api.add_routes(
            path="/{proxy+}",
            methods=[gateway.HttpMethod[method] for method in METHODS],
            integration=integration,
            authorizer=HttpJwtAuthorizer("Tokens", identity.issuer, jwt_audience=identity.audience),
            authorization_scopes=[self._settings.scope],
        )
        allow_first(self.api)
        acknowledge(
            self,
            (
                "AwsSolutions-APIG4",
                "These paths are open on purpose: the console, health, documentation, how to sign in, and "
                "what Slack signs, links that decide.",
            ),
        )

    def _throttle(self, route_key: str, routes: Sequence[gateway.HttpRoute], rate: int) -> None:
        """Give an open path its own rate: strangers may call it as fast as it responds
        (docs/deploy/costs.md#the-worst-case)."""
        raw = self.stage.node.default_child
        assert isinstance(raw, gateway.CfnStage)
        self._rates[route_key] = {
            "ThrottlingRateLimit": rate,
            "ThrottlingBurstLimit": self._settings.open_burst,
        }
        raw.route_settings = dict(self._rates)
        for route in routes:
            # CloudFormation refuses a stage that names a route which is not there yet.
            self.stage.node.add_dependency(route)

    def _stage(self) -> gateway.HttpStage:
        settings = self._settings
        stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(
                rate_limit=settings.api_rate, burst_limit=settings.api_burst
            ),
        )
        group = log_group(self, "Log", settings, f"/aws/vendedlogs/apis/{settings.prefix}-http")
        raw = stage.node.default_child
        assert isinstance(raw, gateway.CfnStage)
        raw.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=group.log_group_arn, format=json.dumps(LOGGED)
        )
        return stage
