"""A host name of the deployer's own for the HTTP API and its console."""

from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_route53_targets as targets
from constructs import Construct

from layover.desk.cdk.props import Domain


class ApiDomain(Construct):
    """The host name, and its record if its zone is named. Streams and sockets keep AWS's hosts: clients learn
    their URLs from the API."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        domain: Domain,
        api: gateway.HttpApi,
        stage: gateway.HttpStage,
    ) -> None:
        super().__init__(scope, id)
        self.name = gateway.DomainName(
            self, "Name", domain_name=domain.name, certificate=domain.certificate
        )
        gateway.ApiMapping(self, "Mapping", api=api, domain_name=self.name, stage=stage)
        if domain.zone is not None:
            target = targets.ApiGatewayv2DomainProperties(
                self.name.regional_domain_name, self.name.regional_hosted_zone_id
            )
            route53.ARecord(
                self,
                "Record",
                zone=domain.zone,
                # With a dot at its end it is taken as a whole name, also of a zone that is known by its id.
                record_name=f"{domain.name}.",
                target=route53.RecordTarget.from_alias(target),
            )
