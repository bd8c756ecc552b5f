"""Titan's embeddings, asked of a `bedrock-runtime` on loopback."""

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest

from layover.adapters.aws.services import AwsServices
from layover.errors import ConfigurationError, ModelError
from layover.plugins.models.embeddings.bedrock import (
    MAX_CHARACTERS,
    MAX_CONCURRENT,
    BedrockEmbedder,
)
from layover.values.runs.usage import Usage
from support.providers.converse import variables_of

NAME = "bedrock/amazon.titan-embed-text-v2:0"
WAIT_S = 20.0
Reply = tuple[int, Any]
Answer = Callable[[str], Reply]


def titan(text: str) -> Reply:
    """As Titan answers: two numbers that tell the text, and a token a character."""
    return 200, {"embedding": [float(len(text)), 1.0], "inputTextTokenCount": len(text)}


def busy(_: str) -> Reply:
    return 429, {"message": "Too many requests"}


class FakeBedrock:
    """`POST /model/ID/invoke`. `answers` come first, then `answer` for each."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], str]] = []
        self.answers: list[Answer] = []
        self.answer: Answer = titan
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def aws(self) -> AwsServices:
        """The environment of a function with a role, with this server as Bedrock."""
        return AwsServices(variables_of(f"http://127.0.0.1:{self.server.server_port}"))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with fake.lock:
                    fake.asked.append((unquote(self.path), body, self.headers["authorization"]))
                    answer = fake.answers.pop(0) if fake.answers else fake.answer
                status, said = answer(body["inputText"])
                raw = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:
                """Tests say what they have to say themselves."""

        return Handler


@pytest.fixture
def fake() -> Iterator[FakeBedrock]:
    bedrock = FakeBedrock()
    thread = threading.Thread(target=bedrock.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield bedrock
    bedrock.server.shutdown()
    bedrock.server.server_close()
    thread.join(WAIT_S)


@pytest.fixture
async def embedder(fake: FakeBedrock) -> AsyncIterator[BedrockEmbedder]:
    embedder = BedrockEmbedder(NAME, fake.aws(), sleep=_no_sleep)
    yield embedder
    await embedder.aclose()


async def _no_sleep(seconds: float) -> None:
    pass


@pytest.mark.parametrize("name", ["bedrock/cohere.embed-v4:0", "openai/text-embedding-3-small"])
def test_an_embedder_without_an_adapter_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        BedrockEmbedder(name, AwsServices({}))


async def test_a_refusal_is_not_repeated(fake: FakeBedrock, embedder: BedrockEmbedder) -> None:
    fake.answer = lambda _: (403, {"message": "not authorized to perform: bedrock:InvokeModel"})
    with pytest.raises(ModelError, match="bedrock:InvokeModel") as caught:
        await embedder.embed(["a"])
    assert caught.value.status == 403
    assert len(fake.asked) == 1


async def test_a_text_that_stays_refused_fails_all_of_them(
    fake: FakeBedrock, embedder: BedrockEmbedder
) -> None:
    fake.answer = lambda text: (400, {"message": "no"}) if text == "bad" else titan(text)
    with pytest.raises(ModelError, match="no"):
        await embedder.embed(["good", "bad", "good"])


@pytest.mark.parametrize("said", [b"{", {}, {"embedding": None}, {"embedding": ["x"]}, []])
async def test_an_answer_without_a_vector_is_a_fault(
    fake: FakeBedrock, embedder: BedrockEmbedder, said: Any
) -> None:
    fake.answer = lambda _: (200, said)
    with pytest.raises(ModelError, match="no vector"):
        await embedder.embed(["a"])
    assert len(fake.asked) == 6


async def test_nobody_listening_is_a_connection_error(fake: FakeBedrock) -> None:
    fake.server.server_close()
    with pytest.raises(ModelError) as caught:
        await BedrockEmbedder(NAME, fake.aws(), sleep=_no_sleep).embed(["a"])
    assert caught.value.type == "APIConnectionError"


async def test_nothing_is_sent_without_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError, match="set the region") as caught:
        await BedrockEmbedder(NAME, AwsServices({}), sleep=_no_sleep).embed(["a"])
    assert caught.value.type == "ConfigurationError"


async def test_a_passing_fault_is_repeated(fake: FakeBedrock, embedder: BedrockEmbedder) -> None:
    fake.answers = [busy, lambda _: (503, {"message": "busy"})]
    assert (await embedder.embed(["a"])).vectors == [[1.0, 1.0]]
    assert len(fake.asked) == 3


async def test_vectors_come_in_the_order_of_their_texts(
    fake: FakeBedrock, embedder: BedrockEmbedder
) -> None:
    fake.answers = [busy]  # the first one asked is the last one answered
    embedded = await embedder.embed(["a", "bb", "ccc", "dddd", ""])
    assert [v[0] for v in embedded.vectors] == [1, 2, 3, 4, 1]
    assert embedded.usage == Usage(input_tokens=11)
    assert embedded.model == NAME


async def test_few_requests_are_under_way_at_once(
    fake: FakeBedrock, embedder: BedrockEmbedder
) -> None:
    together = threading.Barrier(MAX_CONCURRENT)
    under_way: list[int] = []
    most: list[int] = []

    def counted(text: str) -> Reply:
        under_way.append(1)
        most.append(len(under_way))
        # All that are let in meet here: fewer would wait in vain, more would be counted.
        together.wait(WAIT_S)
        under_way.pop()
        return titan(text)

    fake.answer = counted
    await embedder.embed(["a"] * (MAX_CONCURRENT * 2))
    assert max(most) <= MAX_CONCURRENT


async def test_request_names_the_model_and_nothing_but_the_text(
    fake: FakeBedrock, embedder: BedrockEmbedder
) -> None:
    await embedder.embed(["x" * (MAX_CHARACTERS + 1)])
    ((path, body, authorization),) = fake.asked
    assert path == "/model/amazon.titan-embed-text-v2:0/invoke"
    assert body == {"inputText": "x" * MAX_CHARACTERS}
    assert authorization.startswith("AWS4-HMAC-SHA256 ")
    assert "/bedrock/aws4_request" in authorization


async def test_no_text_asks_nobody(fake: FakeBedrock, embedder: BedrockEmbedder) -> None:
    assert (await embedder.embed([])).vectors == []
    assert fake.asked == []
