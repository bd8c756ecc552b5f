"""The WebSocket API in front of the function `sockets`, and `@connections` behind it."""

from aws_cdk import ArnFormat, Aws, Stack
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_apigatewayv2_integrations import WebSocketLambdaIntegration
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.versions import allow_first
from layover.desk.cdk.settings import Settings
from layover.desk.cdk.sizes import Nat

STAGE = "live"


class SocketApi(Construct):
    """The WebSocket API. It is made before the functions, which get its URLs; `serve` connects the one that
    responds."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self.api = gateway.WebSocketApi(
            self,
            "Api",
            api_name=f"{settings.prefix}-sockets",
            description="Layover: live events",
            # Functions push events to it from the VPC.
            ip_address_type=gateway.IpAddressType.DUAL_STACK if settings.nat is Nat.IPV6 else None,
        )
        host = f"{self.api.api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}"
        self.url = f"wss://{host}/{STAGE}"
        """URL for clients."""
        self.endpoint = f"https://{host}/{STAGE}"
        """URL of `@connections`, for functions."""
        stage = gateway.WebSocketStage(
            self,
            "Stage",
            web_socket_api=self.api,
            stage_name=STAGE,
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(
                rate_limit=settings.api_rate, burst_limit=settings.api_burst
            ),
        )
        unlogged = (
            "Access logs of WebSocket APIs need a role that is a setting of the whole account. The function "
            "logs what goes wrong, and no log has the ticket, which is in a query string."
        )
        acknowledge(
            stage,
            ("AwsSolutions-APIG1", unlogged),
            ("Serverless-APIGWAccessLogging", unlogged),
        )

    @property
    def connections(self) -> str:
        """Return the ARN of all connections, with every method."""
        return Stack.of(self).format_arn(
            service="execute-api",
            resource=self.api.api_id,
            resource_name=f"{STAGE}/*/@connections/*",
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )

    def serve(self, function: lambda_.IFunction) -> None:
        """Add all three routes. There is no authorizer, because API Gateway has none for JWTs here: the
        function redeems a ticket at `$connect`."""
        for route in ("$connect", "$disconnect", "$default"):
            name = f"{route.removeprefix('$').capitalize()}Function"
            self.api.add_route(route, integration=WebSocketLambdaIntegration(name, function))
        allow_first(self.api)
        acknowledge(
            self,
            (
                "AwsSolutions-APIG4",
                "A single-use ticket, made with a verified token, is the way in.",
            ),
        )
