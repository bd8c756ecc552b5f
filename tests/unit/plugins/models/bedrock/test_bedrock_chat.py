"""The choice among Bedrock's APIs for a model, and the signed part of a request; all else is as with any
provider."""

import hashlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from layover.adapters.aws.services import AwsServices
from layover.errors import ModelError
from layover.ids import SequentialIds
from layover.plugins.models.bedrock import families
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Delta, Prompt
from support.providers.converse import KEY, REGION, SECRET, variables_of
from support.providers.openai import FakeOpenAI, Raw, Request, delta, fail, say, stream

TOKEN = "session"
GPT = "openai.gpt-oss-120b-1:0"
CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
HELLO = Message(
    id="m",
    thread_id="t",
    role=Role.USER,
    content=(TextPart(text="Grüße"),),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
PLAIN = Prompt(model=f"bedrock/{GPT}", messages=(HELLO,), run_id="run_1", cache_key="k")
STREAM = PLAIN.model_copy(update={"stream": True})
ASKED = [
    prompt.model_copy(update={"model": f"bedrock/{model}"})
    for model in (GPT, CLAUDE)
    for prompt in (PLAIN, STREAM)
]
SIGNATURE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/\d{8}/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request, "
    r"SignedHeaders=(?P<headers>[\w;-]+), Signature=[0-9a-f]{64}"
)


@pytest.fixture
def variables(server: FakeOpenAI) -> dict[str, str]:
    """The variables that Lambda gives a function with a role, and Bedrock's URL."""
    return variables_of(server.base_url) | {"AWS_SESSION_TOKEN": TOKEN}


Connect = Callable[[], BedrockChat]


@pytest.fixture
async def connect(variables: dict[str, str]) -> AsyncIterator[Connect]:
    """The adapter, its waits not slept."""
    made: list[BedrockChat] = []

    def to_server() -> BedrockChat:
        chat = BedrockChat(AwsServices(variables), ids=SequentialIds(), sleep=_no_sleep)
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


async def test_without_credentials_nothing_is_sent(
    server: FakeOpenAI,
    connect: Connect,
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    del variables["AWS_ACCESS_KEY_ID"]
    with pytest.raises(ModelError, match="No AWS credentials") as caught:
        await connect().complete(PLAIN)
    assert caught.value.type == "ConfigurationError"
    assert server.requests == []


async def test_without_a_region_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, connect: Connect, variables: dict[str, str]
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    del variables["AWS_REGION"]
    del variables["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"]
    with pytest.raises(
        ModelError, match=r"Amazon Bedrock cannot .*AWS_REGION is not set"
    ) as caught:
        await connect().complete(PLAIN)
    assert caught.value.type == "ConfigurationError"


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


@pytest.mark.parametrize("prompt", ASKED, ids=lambda p: f"{p.model[8:14]}-{p.stream}")
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
    signed = {"host", "content-type", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"}
    assert set(named["headers"].split(";")) == signed
    assert authorization.endswith(f"Signature={signed_anew(request)}")
    assert not authorization.endswith(signed_anew(request, "another secret"))
    assert request.headers["x-amz-content-sha256"] == hashlib.sha256(request.raw).hexdigest()
    assert request.headers["x-amz-security-token"] == TOKEN


async def test_credentials_of_a_role_are_read_for_each_request(
    server: FakeOpenAI, connect: Connect, variables: dict[str, str]
) -> None:
    """They change every few hours, and a client lives as long as its process."""
    server.script([say("one"), say("two")])
    chat = connect()
    await chat.complete(PLAIN)
    variables["AWS_SESSION_TOKEN"] = "next"
    await chat.complete(PLAIN)
    sent = [r.headers["x-amz-security-token"] for r in server.requests]
    assert sent == [TOKEN, "next"]


async def test_key_of_another_provider_and_other_addresses_are_not_used(
    server: FakeOpenAI, connect: Connect, variables: dict[str, str]
) -> None:
    variables["OPENAI_API_KEY"] = "sk-other"
    variables["OPENAI_BASE_URL"] = variables["AWS_BEDROCK_BASE_URL"] = "http://127.0.0.1:9/v1"
    server.script([say("hello")])
    await connect().complete(PLAIN)
    (request,) = server.requests
    assert SIGNATURE.fullmatch(request.headers["authorization"])


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (GPT, "/openai/v1/chat/completions"),
        ("us.openai.gpt-5.4", "/openai/v1/chat/completions"),
        (CLAUDE, "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"),
        ("amazon.nova-pro-v1:0", "/model/amazon.nova-pro-v1%3A0/converse"),
        (
            "us.meta.llama3-3-70b-instruct-v1:0",
            "/model/us.meta.llama3-3-70b-instruct-v1%3A0/converse",
        ),
        ("unheard-of.model-1", "/model/unheard-of.model-1/converse"),
    ],
)
@pytest.mark.parametrize("prefix", ["bedrock/", ""])
async def test_model_picks_the_api(
    server: FakeOpenAI, connect: Connect, prefix: str, model: str, path: str
) -> None:
    server.script([say("hello")])
    await connect().complete(PLAIN.model_copy(update={"model": prefix + model}))
    (request,) = server.requests
    assert request.path == path
    assert request.headers["x-layover-run"] == "run_1"


async def test_chat_completions_have_nothing_that_bedrock_does_not_document(
    server: FakeOpenAI, connect: Connect
) -> None:
    server.script([say("hello")])
    await connect().complete(STREAM)
    (request,) = server.requests
    assert request.body.keys() == {"model", "messages", "stream", "stream_options"}
    assert request.body["model"] == GPT


async def test_both_apis_are_in_the_regions_own_host(
    connect: Connect, variables: dict[str, str]
) -> None:
    del variables["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"]
    chat, host = connect(), f"https://bedrock-runtime.{REGION}.amazonaws.com"
    assert chat._chat(CLAUDE).base_url == host
    assert chat._chat(GPT).base_url == f"{host}/openai/v1"


def test_profiles_begin_as_the_deployment_says() -> None:
    # Seconds: for no worker that only collects.
    from layover.desk.cdk.constructs.models import PROFILE

    assert families.PROFILE.pattern == PROFILE.pattern


def test_call_imports_no_client_of_aws(server: FakeOpenAI, variables: dict[str, str]) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from layover.adapters.aws.services import AwsServices\n"
        "from layover.errors import ModelError\n"
        "from layover.plugins.models.bedrock.chat import BedrockChat\n"
        "from layover.plugins.models.embeddings.bedrock import BedrockEmbedder\n"
        "from layover.values.prompt import Prompt\n"
        f"asked = Prompt(model='{CLAUDE}', stream=True)\n"
        "aws = AwsServices(os.environ)\n"
        "reply = asyncio.run(BedrockChat(aws).complete(asked))\n"
        "titan = BedrockEmbedder('bedrock/amazon.titan-embed-text-v2:0', aws)\n"
        "try:\n"
        "    asyncio.run(titan.embed(['tea']))\n"
        "except ModelError as refusal:\n"
        "    print(refusal.status)\n"
        "print(reply.text, {'boto3', 'botocore.session', 'openai'} & sys.modules.keys())\n"
    )
    server.script([say("hello")])  # it has no embedder: 404
    run, paths = [sys.executable, "-c", code], {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        run, capture_output=True, text=True, timeout=120, check=True, env=variables | paths
    )
    assert done.stdout == "404\nhello set()\n"
