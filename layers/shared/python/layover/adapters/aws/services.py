"""The environment's clients of the services that speak AWS's JSON protocols."""

import re
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.credentials import CredentialChain
from layover.adapters.aws.retries import BASE_S, DYNAMODB_BASE_S, RetryRules
from layover.adapters.aws.signature import Signer
from layover.errors import ConfigurationError


class _Service(NamedTuple):
    """A service by its endpoint. `variable`: AWS_ENDPOINT_URL_..., `boto3`: boto3's name for it, `host`: the
    beginning of its host, if that is not the name that signs."""

    variable: str
    boto3: str
    host: str = ""


_SERVICES = {
    "bedrock-runtime": _Service("BEDROCK_RUNTIME", "bedrock-runtime"),
    "dynamodb": _Service("DYNAMODB", "dynamodb"),
    "events": _Service("EVENTBRIDGE", "events"),
    "kms": _Service("KMS", "kms"),
    "lambda": _Service("LAMBDA", "lambda"),
    "secretsmanager": _Service("SECRETS_MANAGER", "secretsmanager"),
    "ses": _Service("SESV2", "sesv2", "email"),
    "ssm": _Service("SSM", "ssm"),
    "states": _Service("SFN", "stepfunctions"),
}
_ORDINARY = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-\w+-\d+")
"""Regions whose endpoints are `SERVICE.REGION.amazonaws.com`."""
_OTHER_ENDPOINTS = ("AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT")


class AwsServices:
    """Makes each service's client on first use. `variables`: the process's environment."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._credentials = CredentialChain(variables)
        self._clients: dict[str, AwsClient] = {}
        self._signers: dict[str, Signer] = {}

    def client(self, service: str) -> AwsClient:
        """The client of `dynamodb`, `events`, `kms`, `lambda`, `secretsmanager`, `ssm` or `states`."""
        if service not in self._clients:
            base = DYNAMODB_BASE_S if service == "dynamodb" else BASE_S
            signer = Signer(service, self.region())
            self._clients[service] = AwsClient(
                self.endpoint(service),
                signer,
                self._credentials,
                retries=RetryRules(base),
                variables=self._variables,
            )
        return self._clients[service]

    def client_at(self, endpoint: str, service: str, **settings: Any) -> AwsClient:
        """A client with its own endpoint; `service`: the name that signs, `settings`: AwsClient's."""
        signer = Signer(service, self.region())
        return AwsClient(endpoint, signer, self._credentials, variables=self._variables, **settings)

    def presign(self, service: str, host: str, query: dict[str, str], lifetime_s: int) -> str:
        """A signed URL of a GET, without its `https://` and without a request to sign it."""
        signer, credentials = Signer(service, self.region()), self._credentials.get_blocking()
        return signer.presign(credentials, host, query, lifetime_s, time.time())

    async def sign_post(self, service: str, url: str, body: bytes) -> dict[str, str]:
        """The headers that sign a POST of JSON, for a client of another package. `service`: the name that
        signs. Raises as `CredentialChain.get`."""
        credentials = await self._credentials.get()
        if service not in self._signers:
            self._signers[service] = Signer(service, self.region())
        parts = urlsplit(url)
        headers = {
            "host": parts.netloc,
            "content-type": "application/json",
            "x-amz-content-sha256": sha256(body).hexdigest(),
        }
        request = ("POST", parts.path)
        signed = self._signers[service].sign(credentials, request, headers, body, time.time())
        del signed["host"]  # The client that sends names it.
        return signed

    def region(self) -> str:
        """AWS_REGION, else the profile's. Raises ConfigurationError if there is none."""
        get = self._variables.get
        region = get("AWS_REGION") or get("AWS_DEFAULT_REGION")
        if not region:
            from botocore.session import get_session

            region = get_session().get_config_variable("region")
        if not region:
            raise ConfigurationError("AWS_REGION is not set: set the region of the deployment")
        return str(region)

    def endpoint(self, service: str) -> str:
        """The URL of one of these, of `bedrock-runtime` or of `ses`: AWS_ENDPOINT_URL_SERVICE, else
        AWS_ENDPOINT_URL, else the region's. For any other service, boto3 finds it."""
        get = self._variables.get
        entry = _SERVICES[service]
        if get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
            own = get(f"AWS_ENDPOINT_URL_{entry.variable}") or get("AWS_ENDPOINT_URL")
            if own:
                return own
        region = self.region()
        if _ORDINARY.fullmatch(region) and not any(map(get, _OTHER_ENDPOINTS)):
            return f"https://{entry.host or service}.{region}.amazonaws.com"
        from layover.adapters.aws.sdk import session

        url: str = session().client(entry.boto3, region_name=region).meta.endpoint_url
        return url

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        for client in self._clients.values():
            await client.aclose()
