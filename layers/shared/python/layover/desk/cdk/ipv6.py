"""The hosts of a stage with `nat=ipv6`: those of AWS's services, and those that it could not reach."""

import socket
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from layover.desk.cdk.settings import Provider, Settings
from layover.desk.cdk.sizes import Nat
from layover.values.deployment.providers import BEDROCK_PREFIX, HASHING_PREFIX, OFFLINE_PREFIX

HTTPS = 443
OPENAI = "https://api.openai.com/v1"
"""The address at which models are asked that no setting sends elsewhere."""
BEDROCK = "bedrock-runtime"
SERVICES: Mapping[str, str] = {
    "BEDROCK_RUNTIME": BEDROCK,
    "EVENTBRIDGE": "events",
    "KMS": "kms",
    "LAMBDA": "lambda",
    "SECRETS_MANAGER": "secretsmanager",
    "SFN": "states",
    "SSM": "ssm",
}
"""End of the variable AWS_ENDPOINT_URL_... -> service. Each is named, because AWS_USE_DUALSTACK_ENDPOINT
means DynamoDB and S3 as well, which the VPC's free endpoints reach by IPv4 only (docs/aws-facts.md#ipv6)."""


def host_of(service: str, region: str) -> str:
    """Return the host of a service of AWS that has IPv6 addresses, if the service has them there."""
    return f"{service}.{region}.api.aws"


def has_ipv6(host: str) -> bool:
    """Return whether the name has an IPv6 address. A name that nobody answers for has none."""
    try:
        return bool(socket.getaddrinfo(host, HTTPS, socket.AF_INET6, socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return False


def out_of_reach(
    settings: Settings,
    region: str | None = None,
    has_address: Callable[[str], bool] = has_ipv6,
) -> list[str]:
    """Return the hosts that have no IPv6 address, each once, if the stage has no other way out: those of the
    settings, and those of AWS's services in the region, if it is known. `has_address`: looks a host up. Hosts
    that only the agents' code names are not among them."""
    if settings.nat is not Nat.IPV6:
        return []
    hosts_of_settings = filter(None, (urlsplit(url).hostname for url in _urls(settings)))
    hosts = dict.fromkeys([*hosts_of_settings, *_of_aws(settings, region)])
    return [host for host in hosts if not has_address(host)]


def _of_aws(settings: Settings, region: str | None) -> Iterator[str]:
    if region is None:
        return
    asks_bedrock = settings.bedrock_models or settings.bedrock_embedders
    for service in SERVICES.values():
        if service != BEDROCK or asks_bedrock:
            yield host_of(service, region)


def _urls(settings: Settings) -> Iterator[str]:
    if settings.provider is Provider.OPENAI and _asks_openai(settings):
        yield settings.openai_base_url or OPENAI
    yield from (each.base_url for each in settings.providers.values())
    if settings.otlp_endpoint:
        yield settings.otlp_endpoint


def _asks_openai(settings: Settings) -> bool:
    """Return whether a model of the settings is asked for at the provider without a name, as the default
    model is."""
    others = (*(f"{name}/" for name in settings.providers), BEDROCK_PREFIX)
    tasks = (settings.title_model, settings.observer_model, settings.extractor_model)
    names = filter(None, (*settings.models, *tasks, settings.embedder_model))
    needs_none = (HASHING_PREFIX, OFFLINE_PREFIX)
    models = (settings.model or "", *(name for name in names if not name.startswith(needs_none)))
    return not all(name.startswith(others) for name in models)
