"""The sealer on AWS: a key of KMS that never leaves it, so that every use is allowed and logged there."""

import asyncio
import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.retries import NoAnswer, ServiceError
from layover.dice import SYSTEM_DICE
from layover.errors import ConfigurationError, RetryableError
from layover.plugins.reach.adapters.context import context_bytes
from layover.ports import Dice

MAX_PLAINTEXT = 4_096
"""Bytes that KMS takes at once. Longer texts are sealed in chunks."""
MAX_CHUNKS = 64
_KIND = "kms1"
_MARK = b"="
"""Before each text: KMS seals no empty one."""
_SEALED = re.compile(r"kms1\.(?P<id>[0-9a-f]{32})\.(?P<chunks>[A-Za-z0-9+/=.]+)")
_NOT_OURS = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})
_TO_DO = {
    "AccessDeniedException": "allow the role of this function kms:Encrypt and kms:Decrypt, and in the "
    "policy of the key as well",
    "DisabledException": "enable it",
    "InvalidArnException": "put the ARN of a key into LAYOVER_CONNECTIONS_KEY",
    "InvalidKeyUsageException": "name a symmetric key for encryption",
    "KMSInvalidStateException": "see that it is not being deleted",
    "NotFoundException": "put a key of this region into LAYOVER_CONNECTIONS_KEY",
}


class KmsSealer:
    """`ports.Sealer` on KMS. `key`: ARN of a symmetric key, or of its alias. `service`: the deployment's
    name, so that no other deployment opens its texts with the same key."""

    def __init__(self, kms: AwsClient, key: str, service: str, dice: Dice = SYSTEM_DICE) -> None:
        self._kms = kms
        self._key = key
        self._service = service
        self._dice = dice

    async def seal(self, text: str, context: Mapping[str, str]) -> str:
        """See `ports.Sealer`. Raises ConfigurationError if the key cannot be used."""
        plain = _MARK + text.encode("utf-8", "surrogatepass")
        parts = [plain[i : i + MAX_PLAINTEXT] for i in range(0, len(plain), MAX_PLAINTEXT)]
        if len(parts) > MAX_CHUNKS:
            raise ValueError(f"a text of {len(plain):,} bytes is too long to be sealed")
        id = self._dice.hex(16)
        fields = [{"Plaintext": b64encode(part).decode()} for part in parts]
        chunks = await self._ask_all("Encrypt", "CiphertextBlob", fields, id, context)
        return ".".join([_KIND, id, *(b64encode(chunk).decode() for chunk in chunks)])

    async def open(self, sealed: str, context: Mapping[str, str]) -> str:
        """See `ports.Sealer`. Raises ConfigurationError if the key cannot be used."""
        match = _SEALED.fullmatch(sealed)
        chunks = match["chunks"].split(".") if match else []
        if match is None or len(chunks) > MAX_CHUNKS or not all(map(_is_base64, chunks)):
            raise ValueError("this was not sealed by KMS")
        fields = [{"CiphertextBlob": chunk} for chunk in chunks]
        plain = b"".join(await self._ask_all("Decrypt", "Plaintext", fields, match["id"], context))
        return plain.removeprefix(_MARK).decode("utf-8", "surrogatepass")

    async def _ask_all(
        self,
        operation: str,
        answer: str,
        fields: Sequence[Mapping[str, str]],
        id: str,
        context: Mapping[str, str],
    ) -> list[bytes]:
        """Ask about all chunks of a text at once. The context of each has its number and the text's id: none
        can be moved, left out, or come from another text."""
        digest = sha256(context_bytes(context)).hexdigest()
        asking = []
        for n, each in enumerate(fields, 1):
            # CloudTrail logs the context as it is. So it names no user.
            bound = {"layover": self._service, "for": digest, "text": f"{id} {n}/{len(fields)}"}
            request = {"KeyId": self._key, "EncryptionContext": bound, **each}
            asking.append(self._ask(operation, answer, request))
        return await asyncio.gather(*asking)

    async def _ask(self, operation: str, answer: str, request: Mapping[str, Any]) -> bytes:
        try:
            fields = await self._kms.call(f"TrentService.{operation}", request, version="1.1")
        except ServiceError as error:
            raise self._fault(error.code) from error
        except NoAnswer as error:
            raise RetryableError(f"KMS did not answer: {error}") from error
        try:
            # Neither is ever empty.
            if part := b64decode(fields[answer], validate=True):
                return part
        except (KeyError, TypeError, ValueError):
            pass
        # Without a cause: it could show the plaintext.
        raise RetryableError(f"KMS answered without {answer}")

    def _fault(self, code: str) -> Exception:
        if code in _NOT_OURS:
            return ValueError("this was sealed by another key, or for something else")
        if code in _TO_DO:
            return ConfigurationError(
                f"the key {self._key} seals users' tokens and cannot be used ({code}): the operator has to "
                f"{_TO_DO[code]}"
            )
        return RetryableError(f"KMS answered {code}")


def _is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except binascii.Error:
        return False
