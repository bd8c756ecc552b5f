"""The sealer on KMS: who must act when the key does not work, and what AWS gets to see."""

import json

import pytest

from layover.errors import ConfigurationError, RetryableError
from layover.plugins.reach.adapters.kms import KmsSealer
from support.aws.loopback import CLOSE, answer, bench, error

KEY = "arn:aws:kms:eu-west-1:123456789012:alias/shop-connections"
OWNER = "somebody@example.com"
CONTEXT = {"owner": OWNER, "connection": "github"}
SEALED = "kms1.00112233445566778899aabbccddeeff.AQID"


async def ask(operation: str, *script: bytes) -> None:
    async with bench(*script) as it:
        sealer = KmsSealer(it.client, KEY, "shop")
        if operation == "seal":
            await sealer.seal("gho_secret", CONTEXT)
        else:
            await sealer.open(SEALED, CONTEXT)


BOTH = pytest.mark.parametrize("operation", ["seal", "open"])


@BOTH
@pytest.mark.parametrize(
    ("code", "to_do"),
    [
        ("AccessDeniedException", "role of this function"),
        ("DisabledException", "enable it"),
        ("NotFoundException", "LAYOVER_CONNECTIONS_KEY"),
        ("KMSInvalidStateException", "deleted"),
        ("InvalidKeyUsageException", "symmetric"),
        ("InvalidArnException", "LAYOVER_CONNECTIONS_KEY"),
    ],
)
async def test_key_that_does_not_work_is_named_with_who_must_act(
    operation: str, code: str, to_do: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await ask(operation, error(code))
    said = str(caught.value)
    assert KEY in said
    assert "the operator" in said
    assert to_do in said
    assert code in said
    assert "gho_secret" not in said
    assert OWNER not in said


@BOTH
@pytest.mark.parametrize(
    "fault",
    [
        error("ThrottlingException"),
        error("LimitExceededException"),
        error("KMSInternalException", 500),
        error("DependencyTimeoutException", 500),
        error("KeyUnavailableException", 500),
        error("UnrecognizedClientException"),
        error("SomethingNew"),
        answer({"__type": "x#ThrottlingException"}, 400),
        CLOSE,
        b"HTTP/1.1 503 Busy\r\nContent-Length: 6\r\n\r\n<html>",
    ],
)
async def test_fault_that_passes_may_be_tried_again(operation: str, fault: bytes) -> None:
    with pytest.raises(RetryableError) as caught:
        await ask(operation, fault)
    assert "gho_secret" not in str(caught.value)


@pytest.mark.parametrize("code", ["InvalidCiphertextException", "IncorrectKeyException"])
async def test_text_of_another_key_does_not_open(code: str) -> None:
    with pytest.raises(ValueError, match="sealed"):
        await ask("open", error(code))


@BOTH
@pytest.mark.parametrize(
    "document",
    [{}, {"Plaintext": None, "CiphertextBlob": 3}, {"Plaintext": "é", "CiphertextBlob": ""}, []],
)
async def test_answer_without_what_was_asked_for_may_be_tried_again(
    operation: str, document: object
) -> None:
    with pytest.raises(RetryableError):
        await ask(operation, answer(document))


async def test_aws_sees_no_user_in_what_it_logs() -> None:
    """CloudTrail has the context of each request in plain text."""
    async with bench(answer({"CiphertextBlob": "AQID"}), answer({"CiphertextBlob": "AQID"})) as it:
        sealer = KmsSealer(it.client, KEY, "shop")
        await sealer.seal("t", CONTEXT)
        await sealer.seal("t", {**CONTEXT, "owner": "somebody-else"})
    first, second = (json.loads(r.body) for r in it.served.requests)
    assert it.served.requests[0].headers["x-amz-target"] == "TrentService.Encrypt"
    assert it.served.requests[0].headers["content-type"] == "application/x-amz-json-1.1"
    assert first["KeyId"] == KEY
    assert first["EncryptionContext"]["layover"] == "shop"
    assert OWNER not in json.dumps(first["EncryptionContext"])
    assert first["EncryptionContext"]["for"] != second["EncryptionContext"]["for"]


async def test_only_the_deployments_own_key_opens() -> None:
    """Else a text that somebody sealed with a key of theirs would open here."""
    async with bench(answer({"Plaintext": "PXg="})) as it:
        await KmsSealer(it.client, KEY, "shop").open(SEALED, CONTEXT)
        (request,) = it.served.requests
    assert request.headers["x-amz-target"] == "TrentService.Decrypt"
    assert json.loads(request.body)["KeyId"] == KEY


async def test_text_that_is_too_long_for_a_grant_asks_nobody() -> None:
    async with bench(CLOSE) as it:
        sealer = KmsSealer(it.client, KEY, "shop")
        with pytest.raises(ValueError, match="sealed"):
            await sealer.open(".".join([SEALED, *["AQID"] * 100]), CONTEXT)
        assert it.served.requests == []
