"""The regions of a deployment, checked before anything is made."""

from layover.desk.cdk.settings import Settings

PARTITION = "aws"
"""In the others (China, GovCloud, the isolated ones, the European Sovereign Cloud) names, endpoints and
services differ. Nothing here was written or checked for them."""

MAY_NOT_STREAM = frozenset(
    {
        "ap-east-2",
        "ap-south-2",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "ca-west-1",
        "eu-central-2",
        "eu-south-2",
        "il-central-1",
        "me-central-1",
        "mx-central-1",
    }
)
"""Regions in which Lambda had no function URLs, with which its response streaming came
(docs/aws-facts.md#lambda). AWS adds regions without a table that a program could read."""


def streaming_caution(region: str | None) -> str | None:
    """Return what a person should check before a deployment to a region where Lambda may not stream
    responses; None: it streams there, or the region is unknown."""
    if region not in MAY_NOT_STREAM:
        return None
    return (
        f"Lambda may not stream responses in {region}: server-sent events, chats and AG-UI would fail there, "
        "or the whole deployment. Look up Lambda's response streaming in AWS Capabilities by Region first"
    )


def unfit(region: str | None, settings: Settings) -> str | None:
    """Return why a stage cannot be in this region, for a person; None: it can, or the region is unknown.
    Reads botocore's own tables, so it needs no network."""
    if not region:
        return None
    from botocore.exceptions import UnknownRegionError
    from botocore.session import get_session

    tables = get_session()
    try:
        partition = tables.get_partition_for_region(region)
    except UnknownRegionError:
        return f"{region} is not a region of AWS"
    if partition != PARTITION:
        return f"{region} is in the partition {partition}: Layover works only in the commercial regions"
    for service, what in _required_services(settings).items():
        if region not in tables.get_available_regions(service, PARTITION):
            return f"{region} has no {what}: choose another region"
    return None


def _required_services(settings: Settings) -> dict[str, str]:
    """Return the services that a new region may not have yet: botocore's name -> the name for people."""
    services = {"rds": "Aurora", "lambda": "Lambda", "apigateway": "API Gateway"}
    if settings.issuer is None:
        services["cognito-idp"] = "Cognito user pools"
    return services
