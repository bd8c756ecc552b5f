"""Bedrock's OpenAI-compatible endpoint: what is signed, and that all else is as with any provider."""

import hashlib
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from layover.adapters.models.bedrock import BedrockChat
from layover.errors import ConfigurationError, ModelError
from layover.ids import SequentialIds
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Delta, Prompt
from support.providers.openai import FakeOpenAI, Raw, Request, delta, fail, say, stream

KEY, SECRET, TOKEN, REGION = "AKIDEXAMPLE", "secret", "session", "eu-central-1"
MODEL = "openai.gpt-oss-120b-1:0"
HELLO = Message(
    id="m",
    thread_id="t",
    role=Role.USER,
    content=(TextPart(text="Grüße"),),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
PLAIN = Prompt(model=f"bedrock/{MODEL}", messages=(HELLO,), run_id="run_1", cache_key="k")
STREAM = PLAIN.model_copy(update={"stream": True})
SIGNATURE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/\d{8}/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request, "
    r"SignedHeaders=(?P<headers>[\w;-]+), Signature=[0-9a-f]{64}"
)


def session(**more: Any) -> boto3.session.Session:
    """A session with the temporary credentials of a role."""
    known = {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "region_name": REGION,
    }
    return boto3.session.Session(**(known | more))


Connect = Callable[..., BedrockChat]


@pytest.fixture
async def connect(server: FakeOpenAI) -> AsyncIterator[Connect]:
    """`connect(session=...)`: the adapter, its waits written down and not slept."""
    made: list[BedrockChat] = []

    def to_server(session: Callable[[], Any] = session) -> BedrockChat:
        chat = BedrockChat(session, server.base_url, ids=SequentialIds(), sleep=_no_sleep)
        made.append(chat)
        return chat

    yield to_server
    for chat in made:
        await chat.aclose()


async def _no_sleep(seconds: float) -> None:
    pass


def signed_anew(request: Request, secret: str = SECRET) -> str:
    """The Authorization that AWS would find for what arrived, by botocore alone."""
    names = SIGNATURE.fullmatch(request.headers["authorization"])
    assert names is not None
    sent = {name: request.headers[name] for name in names["headers"].split(";")}
    again = AWSRequest("POST", f"http://{sent['host']}{request.path}", sent, request.raw)
    again.context["timestamp"] = request.headers["x-amz-date"]
    signer = SigV4Auth(Credentials(KEY, secret, TOKEN), "bedrock", REGION)
    canonical = signer.canonical_request(again)
    return str(signer.signature(signer.string_to_sign(again, canonical), again))


async def test_without_credentials_nothing_is_sent(server: FakeOpenAI, connect: Connect) -> None:
    class Nobody:
        region_name = REGION

        def get_credentials(self) -> None:
            return None

    with pytest.raises(ModelError, match="No AWS credentials") as caught:
        await connect(Nobody).complete(PLAIN)
    assert caught.value.type == "AuthenticationError"
    assert server.requests == []


async def test_without_a_region_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        await connect(lambda: session(region_name=None)).complete(PLAIN)


async def test_a_role_that_may_not_is_told_so_at_once(server: FakeOpenAI, connect: Connect) -> None:
    server.script([fail(403, "User is not authorized to perform: bedrock:InvokeModel")])
    with pytest.raises(ModelError, match="bedrock:InvokeModel") as caught:
        await connect().complete(PLAIN)
    assert caught.value.status == 403
    assert len(server.requests) == 1


async def test_a_fault_that_passes_is_repeated_with_a_signature_of_its_own(
    server: FakeOpenAI, connect: Connect
) -> None:
    server.script([fail(429, "Too many tokens"), fail(503), say("hello")])
    assert (await connect().complete(PLAIN)).text == "hello"
    assert len(server.requests) == 3
    assert all(signed_anew(r) in r.headers["authorization"] for r in server.requests)


async def test_a_stream_that_breaks_is_begun_again(server: FakeOpenAI, connect: Connect) -> None:
    whole = stream(delta("hello"), delta(finish="stop"))
    broken = Raw(200, whole.headers, whole.chunks[:1], breaks=True)
    server.script([broken, whole])
    told: list[Delta] = []
    assert (await connect().complete(STREAM, told.append)).text == "hello"
    assert [d.kind for d in told] == ["text", "restart", "text"]


@pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])
async def test_signature_is_the_one_that_aws_would_find(
    server: FakeOpenAI, connect: Connect, prompt: Prompt
) -> None:
    server.script([say("hello")])
    await connect().complete(prompt)
    (request,) = server.requests
    authorization = request.headers["authorization"]
    named = SIGNATURE.fullmatch(authorization)
    assert named is not None
    assert (named["key"], named["region"], named["service"]) == (KEY, REGION, "bedrock")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(named["headers"].split(";"))
    assert authorization.endswith(f"Signature={signed_anew(request)}")
    assert not authorization.endswith(signed_anew(request, "another secret"))
    assert request.headers["x-amz-content-sha256"] == hashlib.sha256(request.raw).hexdigest()
    assert request.headers["x-amz-security-token"] == TOKEN


async def test_credentials_of_a_role_are_asked_for_each_request(
    server: FakeOpenAI, connect: Connect
) -> None:
    """They change every few hours, and a client lives as long as its process."""
    kept = session()
    server.script([say("one"), say("two")])
    chat = connect(lambda: kept)
    await chat.complete(PLAIN)
    credentials = kept.get_credentials()
    assert credentials is not None
    credentials.token = "next"
    await chat.complete(PLAIN)
    sent = [r.headers["x-amz-security-token"] for r in server.requests]
    assert sent == [TOKEN, "next"]


async def test_key_of_another_provider_and_other_addresses_are_not_used(
    server: FakeOpenAI, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer")
    monkeypatch.setenv("AWS_BEDROCK_BASE_URL", "http://127.0.0.1:9/v1")
    server.script([say("hello")])
    await connect().complete(PLAIN)
    (request,) = server.requests
    assert SIGNATURE.fullmatch(request.headers["authorization"])


async def test_model_is_sent_by_its_own_name(server: FakeOpenAI, connect: Connect) -> None:
    server.script([say("hello"), say("hello")])
    chat = connect()
    for name in (f"bedrock/{MODEL}", MODEL):
        await chat.complete(PLAIN.model_copy(update={"model": name}))
    assert [r.body["model"] for r in server.requests] == [MODEL, MODEL]


async def test_body_has_nothing_that_bedrock_does_not_document(
    server: FakeOpenAI, connect: Connect
) -> None:
    server.script([say("hello")])
    await connect().complete(STREAM)
    (request,) = server.requests
    assert request.body.keys() == {"model", "messages", "stream", "stream_options"}
    assert request.headers["x-layover-run"] == "run_1"


def test_address_is_that_of_the_region() -> None:
    chat = BedrockChat(session)
    chat._connect()
    assert chat.base_url == f"https://bedrock-runtime.{REGION}.amazonaws.com/openai/v1"
