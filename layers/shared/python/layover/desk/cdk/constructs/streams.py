"""The REST API in front of `streams` (docs/adr/0013-response-streaming.md): HTTP APIs cannot stream."""

from collections.abc import Mapping

from aws_cdk import Aws, Duration
from aws_cdk import aws_apigateway as gateway
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.identity import Identity
from layover.desk.cdk.settings import Settings
from layover.values.deployment import pages
from layover.values.deployment.access import (
    CHAT_ROUTES,
    STREAM_ROUTES,
    TICKETED,
    TICKETED_ROUTE,
)

STAGE = "live"
MAX_DURATION = Duration.minutes(15)
"""API Gateway's limit for a streamed response (docs/aws-facts.md#api-gateway)."""


class StreamApi(Construct):
    """The REST API. It is made before the functions, which get its URL; `serve` connects the one that
    responds."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self._settings = settings
        self.api = gateway.RestApi(
            self,
            "Api",
            rest_api_name=f"{settings.prefix}-streams",
            description="Layover: streamed responses",
            # Edge-optimized APIs close a stream that is silent for 30 s, regional ones after 5 minutes.
            endpoint_configuration=gateway.EndpointConfiguration(
                types=[gateway.EndpointType.REGIONAL]
            ),
            # The role would be a setting of the whole account, which a stack should not change.
            cloud_watch_role=False,
            deploy_options=gateway.StageOptions(
                stage_name=STAGE,
                tracing_enabled=True,
                throttling_rate_limit=settings.api_rate,
                throttling_burst_limit=settings.api_burst,
            ),
        )
        self._tell_browsers_of_refusals()
        # Spelled out: the CDK's own names the stage, which waits for the functions, which get this URL.
        host = f"{self.api.rest_api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}"
        self.url = f"https://{host}/{STAGE}"
        self._acknowledge()

    def serve(self, function: lambda_.Alias, identity: Identity, origins: list[str]) -> None:
        """Add the routes. Routes that stream need a token of the user pool with the scope, which API Gateway
        verifies. One route needs a ticket instead, which the function verifies. `origins`: of pages that may
        read the streams."""
        integration = gateway.LambdaIntegration(
            function,
            response_transfer_mode=gateway.ResponseTransferMode.STREAM,
            timeout=MAX_DURATION,
        )
        self._allow_first(function)
        resources: dict[str, gateway.IResource] = {}
        if identity.pool_id is not None:
            pool = cognito.UserPool.from_user_pool_id(self, "Users", identity.pool_id)
            authorizer = gateway.CognitoUserPoolsAuthorizer(
                self, "Tokens", cognito_user_pools=[pool]
            )
            for method, path in (*STREAM_ROUTES, *CHAT_ROUTES):
                self._resource(path, resources).add_method(
                    method,
                    integration,
                    authorizer=authorizer,
                    authorization_type=gateway.AuthorizationType.COGNITO,
                    authorization_scopes=[self._settings.scope],
                )
        # REST APIs verify only Cognito's tokens. With another provider a stream begins with a ticket, for
        # which the HTTP API has verified a token.
        self._open(self._resource(f"{TICKETED}{TICKETED_ROUTE}", resources), integration)
        for resource in resources.values():
            self._let_browsers_ask(resource, origins)

    def _allow_first(self, function: lambda_.Alias) -> None:
        """Let the API invoke the function before its stage leads there. The CDK's permissions name the stage,
        so they come after it, and a new alias would refuse for some seconds."""
        function.add_permission(
            "Streams",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=self.api.arn_for_execute_api(),
        )
        assert self.api.latest_deployment is not None
        self.api.latest_deployment.node.add_dependency(function.node.find_child("Streams"))

    def _resource(self, path: str, resources: dict[str, gateway.IResource]) -> gateway.IResource:
        if path not in resources:
            resources[path] = self.api.root.resource_for_path(path)
        return resources[path]

    def _open(self, resource: gateway.IResource, integration: gateway.Integration) -> None:
        """Open a method to requests with a ticket. API Gateway refuses the others, so they cost no
        invocation."""
        method = resource.add_method(
            "GET",
            integration,
            authorization_type=gateway.AuthorizationType.NONE,
            request_parameters={"method.request.querystring.ticket": True},
            request_validator=gateway.RequestValidator(
                self, "Ticketed", rest_api=self.api, validate_request_parameters=True
            ),
        )
        ticket = "A ticket for one run's events, made with a verified token, is the way in."
        acknowledge(method, ("AwsSolutions-APIG4", ticket), ("AwsSolutions-COG4", ticket))

    def _let_browsers_ask(self, resource: gateway.IResource, origins: list[str]) -> None:
        preflight = resource.add_cors_preflight(
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=list(pages.SENT),
            expose_headers=list(pages.READ),
            max_age=Duration.hours(1),
        )
        bare = "A preflight carries no token, and API Gateway answers it by itself."
        acknowledge(preflight, ("AwsSolutions-APIG4", bare), ("AwsSolutions-COG4", bare))

    def _tell_browsers_of_refusals(self) -> None:
        """Add CORS headers to the responses of API Gateway itself (401, 403, 429, 5xx), which no function
        makes: a page could not read them otherwise. They hold a message and nothing of a user, so any origin
        may."""
        headers = {
            "Access-Control-Allow-Origin": "'*'",
            "Access-Control-Expose-Headers": f"'{','.join(pages.READ)}'",
        }
        for type in (gateway.ResponseType.DEFAULT_4_XX, gateway.ResponseType.DEFAULT_5_XX):
            name = f"Refusal{type.response_type.removeprefix('DEFAULT_').title()}"
            self.api.add_gateway_response(name, type=type, response_headers=headers)

    def _acknowledge(self) -> None:
        unlogged = (
            "Logs of REST APIs need a role that is a setting of the whole account. The function logs what "
            "goes wrong, and no log has the ticket, which is in a query string."
        )
        rules: Mapping[str, str] = {
            "AwsSolutions-APIG1": unlogged,
            "AwsSolutions-APIG6": unlogged,
            "Serverless-APIGWAccessLogging": unlogged,
            "AwsSolutions-APIG2": "The function validates bodies against its own schemas.",
            "AwsSolutions-APIG3": "A web ACL costs by the month; a deployer may associate one.",
        }
        acknowledge(self, *rules.items())
