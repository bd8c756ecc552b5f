"""Amazon Bedrock's OpenAI-compatible endpoint: the same wire, each request signed by the role."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from layover.adapters.models.endpoint import Endpoint, Headers
from layover.adapters.models.faults import ProviderFault
from layover.adapters.models.openai_chat import OpenAIChat
from layover.adapters.models.retrying import Sleep
from layover.errors import ConfigurationError, ModelError
from layover.ports import Ids, OnDelta
from layover.values.prompt import Prompt, Reply

PREFIX = "bedrock/"
SERVICE = "bedrock"
"""The name that signatures are made for."""


class BedrockChat(OpenAIChat):
    """`session` answers a boto3 session: who signs, and in which region. `base_url`: instead of the
    region's own `https://bedrock-runtime.REGION.amazonaws.com/openai/v1`.

    A leading `bedrock/` of a model's name is not sent."""

    def __init__(
        self,
        session: Callable[[], Any],
        base_url: str | None = None,
        *,
        ids: Ids | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        # Nothing says that Bedrock knows the field of the cache's key.
        super().__init__(None, prompt_cache_key=False, ids=ids, sleep=sleep)
        self._session = session
        self._base_url = base_url
        self._signer: Signer | None = None

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port. Raises ConfigurationError where there is no region."""
        self._connect()
        named = prompt.model_copy(update={"model": prompt.model.removeprefix(PREFIX)})
        return await super().complete(named, on_delta)

    def _connect(self) -> None:
        if self._signer is not None:
            return
        self._signer = Signer(self._session())
        url = f"https://bedrock-runtime.{self._signer.region}.amazonaws.com/openai/v1"
        self._endpoint = Endpoint(self._base_url or url, self._signer.signed)


class Signer:
    """SigV4 with the credentials that a boto3 session has at the time: a role's change every few hours.

    Raises ConfigurationError where the session has no region."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.region: str = session.region_name
        if self.region is None:
            raise ConfigurationError("LAYOVER_PROVIDER=bedrock needs a region (AWS_REGION)")

    def signed(self, url: str, body: bytes) -> Headers:
        """The headers that sign a POST of this JSON. Raises ProviderFault without credentials."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        try:
            credentials = self._session.get_credentials()
        except BotoCoreError as error:
            raise _unsigned(str(error)) from error
        if credentials is None:
            raise _unsigned("the role, the environment and the profile have none")
        digest = hashlib.sha256(body).hexdigest()
        named = {"Content-Type": "application/json", "X-Amz-Content-SHA256": digest}
        request = AWSRequest("POST", url, named, body)
        SigV4Auth(credentials.get_frozen_credentials(), SERVICE, self.region).add_auth(request)
        return dict(request.headers.items())


def _unsigned(why: str) -> ProviderFault:
    """Nothing was sent."""
    error = ModelError(f"No AWS credentials: {why}", type="AuthenticationError")
    return ProviderFault(error, passing=False)
