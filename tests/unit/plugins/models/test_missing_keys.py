"""A provider without its key or its region: the run fails at once and says who must act, or goes on with the
next model of its list. A key is read before the first request that needs it."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from layover import Agent
from layover.adapters.aws.services import AwsServices
from layover.adapters.http.choice import choose_client
from layover.errors import ConfigurationError, ModelError, RetryableError
from layover.plugins.models.embeddings.providers import make_embedder
from layover.plugins.models.endpoint import Key, header_with
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers, make_model
from layover.values.deployment.environment import Environment
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from support.providers.openai import FakeOpenAI, say
from support.worlds.runs import Bench, types, words_of

DEEP, KIMI, OWN = "deepseek/chat", "kimi/k2", "openai/gpt-5-mini"
CLAUDE = "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as own:
        own.respond_with(lambda _: say("here"))
        yield own


class Deployment:
    """A process's adapters. `parameters`: what SSM has, by name; an error is raised."""

    def __init__(self, server: FakeOpenAI, **parameters: str | Exception) -> None:
        addresses = {
            "deepseek": {"base_url": server.base_url, "api_key_env": "DEEP_KEY"},
            "kimi": {"base_url": server.base_url, "api_key_parameter": "kimi"},
        }
        given = {"OPENAI_BASE_URL": server.base_url, "LAYOVER_PROVIDERS": json.dumps(addresses)}
        self.environment = Environment.model_validate(given)
        self.parameters = parameters
        self.read: list[str] = []
        self.made: list[Providers] = []

    def parameter(self, name: str) -> str:
        self.read.append(name)
        value = self.parameters.get(name, ConfigurationError(f"put the key into SSM as {name}"))
        if isinstance(value, Exception):
            raise value
        return value

    def model(self, **variables: str) -> Providers:
        made = make_model(
            self.environment,
            lambda: self.parameter("own"),
            variables,
            self.parameter,
            lambda: AwsServices(variables),
        )
        assert isinstance(made, Providers)
        self.made.append(made)
        return made


Deploy = Callable[..., Deployment]


@pytest.fixture
async def deploy(server: FakeOpenAI) -> AsyncIterator[Deploy]:
    deployed: list[Deployment] = []

    def begin(**parameters: str | Exception) -> Deployment:
        deployed.append(Deployment(server, **parameters))
        return deployed[-1]

    yield begin
    for model in (each for one in deployed for each in one.made):
        own: Any = model.chat_of(OWN)[0]
        await own.aclose()
        await model.aclose()


def authorizations(server: FakeOpenAI) -> list[str]:
    return [request.headers["authorization"] for request in server.requests]


@pytest.fixture
def no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_region")
@pytest.mark.parametrize(
    ("model", "told"),
    [
        (DEEP, "the key of deepseek in DEEP_KEY, and it is not set: the deployer has to set it"),
        (KIMI, "put the key into SSM as kimi"),
        (OWN, "put the key into SSM as own"),
        (CLAUDE, "AWS_REGION is not set"),
    ],
)
async def test_missing_setting_fails_the_run_at_once_and_is_named(
    server: FakeOpenAI, deploy: Deploy, model: str, told: str
) -> None:
    bench = Bench(Agent("helper", model=model), deploy().model())
    run_id = await bench.start()
    assert (await bench.turn(run_id))["status"] == "over"
    run = await bench.run(run_id)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "ConfigurationError"
    assert told in words_of(run)
    assert server.requests == []


@pytest.mark.parametrize(
    ("key", "sent"),
    [("k\r\n", "k"), (" k", "k"), (lambda: "\tk \n", "k"), (" \n", "none"), (None, "none")],
)
async def test_what_is_around_a_key_is_not_sent(key: Key, sent: str) -> None:
    assert await header_with(key, "x-api-key")("", b"") == {"x-api-key": sent}


async def test_proxy_that_cannot_be_asked_fails_the_run_at_once_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "socks4://127.0.0.1:9")
    client = choose_client(os.environ)
    model = OpenAIChat("sk", "http://provider.example/v1", make_client=client)
    bench = Bench(Agent("helper", model="m"), model)
    run_id = await bench.start()
    assert (await bench.turn(run_id))["status"] == "over"
    run = await bench.run(run_id)
    assert run.error is not None
    assert run.error.type == "ConfigurationError"
    assert (
        "HTTP_PROXY, of the environment or the system, names a proxy that cannot be asked (socks4://"
        in words_of(run)
    )
    await model.aclose()


@pytest.mark.usefixtures("no_region")
@pytest.mark.parametrize("model", [DEEP, KIMI, CLAUDE])
async def test_next_model_of_the_list_answers_instead(
    server: FakeOpenAI, deploy: Deploy, model: str
) -> None:
    bench = Bench(Agent("helper", model=[model, OWN]), deploy(own="sk-own").model())
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "here")
    assert authorizations(server) == ["Bearer sk-own"]
    assert types(await bench.events(run.id)).count("model-fallback") == 1


async def test_own_key_is_read_only_where_the_own_provider_is_asked(
    server: FakeOpenAI, deploy: Deploy
) -> None:
    deployment = deploy(own="sk-own")
    model = deployment.model(DEEP_KEY="sk-deep")
    await model.complete(Prompt(model=DEEP))
    assert deployment.read == []
    for _ in range(2):
        await model.complete(Prompt(model=OWN))
    assert deployment.read == ["own"]
    assert authorizations(server) == ["Bearer sk-deep", *["Bearer sk-own"] * 2]


@pytest.mark.parametrize(("model", "name"), [(OWN, "own"), (KIMI, "kimi")])
async def test_parameter_that_is_not_answered_may_be_read_again(
    server: FakeOpenAI, deploy: Deploy, model: str, name: str
) -> None:
    deployment = deploy(**{name: RetryableError("SSM is away")})
    bench = Bench(Agent("helper", model=[model, DEEP]), deployment.model(DEEP_KEY="sk"))
    run_id = await bench.start()
    with pytest.raises(RetryableError, match="SSM is away"):
        await bench.turn(run_id)
    deployment.parameters = {name: "sk-late"}
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "here"
    assert authorizations(server) == ["Bearer sk-late"]


async def test_key_that_is_put_there_meanwhile_is_read(server: FakeOpenAI, deploy: Deploy) -> None:
    deployment = deploy()
    model = deployment.model()
    with pytest.raises(ModelError):
        await model.complete(Prompt(model=KIMI))
    deployment.parameters = {"kimi": "sk-late"}
    assert (await model.complete(Prompt(model=KIMI))).text == "here"


@pytest.mark.parametrize("name", ["deepseek/small", "kimi/small", "openai/small"])
async def test_embedder_without_a_key_is_a_model_error_of_its_request(
    server: FakeOpenAI, deploy: Deploy, name: str
) -> None:
    deployment = deploy()

    def own() -> str:
        return deployment.parameter("own")

    variables: dict[str, Any] = {}
    made = make_embedder(
        name,
        deployment.environment,
        own,
        variables,
        deployment.parameter,
        aws=lambda: AwsServices(variables),
    )
    assert made.model == name
    with pytest.raises(ModelError) as caught:
        await made.embed(["tea"])
    assert caught.value.type == "ConfigurationError"
    assert server.requests == []
