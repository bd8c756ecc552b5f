"""`bedrock-runtime`, each request signed by the role of the process."""

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.client import MakeClient
from layover.errors import ConfigurationError, RetryableError
from layover.plugins.models.bedrock.faults import unsigned
from layover.plugins.models.endpoint import Endpoint, Headers, Refusal
from layover.plugins.models.faults import from_status, not_configured

SERVICE = "bedrock-runtime"
SIGNED_AS = "bedrock"
"""The name that signatures are made for."""


def bedrock_endpoint(
    aws: AwsServices, make_client: MakeClient, refusal: Refusal = from_status, path: str = ""
) -> Endpoint:
    """Return Bedrock's endpoint, or what is below it. Raises ConfigurationError if no region is set."""

    async def authorize(url: str, body: bytes) -> Headers:
        try:
            return await aws.sign_post(SIGNED_AS, url, body)
        except ConfigurationError as error:
            raise not_configured(f"No AWS credentials: {error}") from error
        except RetryableError as error:
            raise unsigned(str(error)) from error

    url = f"{aws.endpoint(SERVICE).rstrip('/')}{path}"
    return Endpoint(url, authorize, refusal, make_client)
