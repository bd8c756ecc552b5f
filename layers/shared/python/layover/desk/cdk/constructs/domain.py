"""A host name of the deployer's own for the HTTP API and its console."""

from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_route53_targets as targets
from constructs import Construct

from layover.desk.cdk.props import Domain, InvalidProps
from layover.desk.cdk.settings import Settings


def domain_of(scope: Construct, prop: Domain | None, settings: Settings) -> Domain | None:
    """Return the host name, the prop's or the settings'; None: AWS's host is the only one. Raises
    InvalidProps if both have one."""
    if settings.domain is None:
        return prop
    if prop is not None:
        raise InvalidProps("domain is given twice, as a prop and in settings=: give it once")
    zone: route53.IHostedZone | None = None
    if settings.domain_zone is not None:
        # Records have whole names, so the zone's own counts for nothing.
        zone = route53.HostedZone.from_hosted_zone_attributes(
            scope,
            "DomainZone",
            hosted_zone_id=settings.domain_zone,
            zone_name=settings.domain.partition(".")[2],
        )
    certificate: acm.ICertificate
    if settings.domain_certificate is not None:
        certificate = acm.Certificate.from_certificate_arn(
            scope, "DomainCertificate", settings.domain_certificate
        )
    else:
        certificate = acm.Certificate(
            scope,
            "DomainCertificate",
            domain_name=settings.domain,
            validation=acm.CertificateValidation.from_dns(zone),
        )
    return Domain(settings.domain, certificate, zone)


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
        self.target = self.name.regional_domain_name
        """The host to which the name has to lead."""
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
