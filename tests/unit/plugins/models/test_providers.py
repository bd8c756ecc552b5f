"""Several providers in one deployment: the prefix of a model's name picks one."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from layover.adapters.aws.services import AwsServices
from layover.desk.cdk.settings import Settings
from layover.desk.local.settings import Settings as Runner
from layover.desk.local.settings import child_variables
from layover.errors import ConfigurationError, ModelError
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.prices import context_window, look_up_first, window_of
from layover.plugins.models.providers import Providers, find_key, make_model
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import ProviderAddress
from layover.values.prompt import Prompt
from support.providers.openai import FakeOpenAI, fail, say

PARAMETER = {"base_url": "https://a.example/v1", "api_key_parameter": "/shop/key"}


def environment(providers: Any) -> Environment:
    return Environment.model_validate({"LAYOVER_PROVIDERS": json.dumps(providers)})


@pytest.fixture
def servers() -> Iterator[list[FakeOpenAI]]:
    with FakeOpenAI() as own, FakeOpenAI() as other:
        for server in (own, other):
            server.respond_with(lambda _: say("x"))
        yield [own, other]


@pytest.fixture
async def providers(servers: list[FakeOpenAI]) -> AsyncIterator[Providers]:
    own, other = servers
    address = ProviderAddress(base_url=other.base_url, api_key_env="DEEP_KEY")
    keys = {"deepseek": "sk-deep"}
    chat = OpenAIChat("sk-own", own.base_url)
    model = Providers(chat, {"deepseek": address}, keys.__getitem__)
    yield model
    await model.aclose()
    await chat.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        "[]",
        {"openai": {"base_url": "https://a.example/v1"}},
        {"Deep Seek": {"base_url": "https://a.example/v1"}},
        {"deepseek": {"base_url": "a.example"}},
        {"deepseek": {"base_url": "https://a.example", "key": "sk"}},
        {"deepseek": {**PARAMETER, "api_key_env": "KEY"}},
    ],
)
def test_providers_that_cannot_be_are_refused_when_the_environment_is_read(wrong: Any) -> None:
    with pytest.raises(ValueError, match="LAYOVER_PROVIDERS"):
        environment(wrong)


def test_key_that_is_not_set_is_named() -> None:
    address = ProviderAddress(base_url="https://a.example", api_key_env="DEEP_KEY")
    with pytest.raises(ConfigurationError, match="deepseek in DEEP_KEY"):
        find_key("deepseek", address, {}, str)


def test_key_comes_from_its_variable_or_its_parameter() -> None:
    in_variable = ProviderAddress(base_url="https://a.example", api_key_env="DEEP_KEY")
    assert find_key("d", in_variable, {"DEEP_KEY": "sk"}, str) == "sk"
    assert find_key("d", ProviderAddress(**PARAMETER), {}, "value of {}".format) == (
        "value of /shop/key"
    )
    assert find_key("d", ProviderAddress(base_url="http://a.example"), {}, str) is None


@pytest.mark.parametrize(
    ("model", "server", "sent"),
    [
        ("deepseek/chat", 1, "chat"),
        ("deepseek/openai/gpt-5", 1, "openai/gpt-5"),
        ("openai/gpt-5-mini", 0, "gpt-5-mini"),
        ("openai/deepseek/chat", 0, "deepseek/chat"),
        ("anthropic/claude", 0, "anthropic/claude"),
        ("deepseek", 0, "deepseek"),
    ],
)
async def test_prefix_picks_the_provider(
    servers: list[FakeOpenAI], providers: Providers, model: str, server: int, sent: str
) -> None:
    await providers.complete(Prompt(model=model))
    (request,) = servers[server].requests
    assert request.body["model"] == sent
    key = ("sk-own", "sk-deep")[server]
    assert request.headers["authorization"] == f"Bearer {key}"
    assert servers[1 - server].requests == []


@pytest.mark.parametrize(
    ("model", "status", "lines"),
    [
        (
            "depseek/chat",
            404,
            ["the model 'depseek/chat': no provider 'depseek': did you mean 'deepseek'?"],
        ),
        (
            "opnai/gpt-5",
            400,
            ["the model 'opnai/gpt-5': no provider 'opnai': did you mean 'openai'?"],
        ),
        ("opnai/gpt-5", 401, []),
        ("anthropic/claude", 404, []),
        ("deepseek/chat", 404, []),
        ("gpt-5", 404, []),
    ],
)
async def test_mistyped_provider_is_named_in_the_log_alone(
    servers: list[FakeOpenAI],
    providers: Providers,
    caplog: pytest.LogCaptureFixture,
    model: str,
    status: int,
    lines: list[str],
) -> None:
    for server in servers:
        server.script([fail(status, "no such model")])
    with pytest.raises(ModelError) as error:
        await providers.complete(Prompt(model=model))
    assert caplog.messages == lines
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("wrong", ["{", "[]", '{"m": 0}', '{"m": "many"}', '{"m": null}'])
def test_windows_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="LAYOVER_CONTEXT_WINDOWS"):
        Environment.model_validate({"LAYOVER_CONTEXT_WINDOWS": wrong})


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("openai/qwen3:8b", 4096),
        ("qwen3:8b", 4096),
        ("openai/ours", 9000),
        ("ours", 9000),
        ("deep/chat", 7000),
        ("openai/deep/chat", 7000),
        ("chat", None),
        ("openai/gpt-4o-mini", 5000),
    ],
)
def test_window_is_the_one_that_the_deployer_says(model: str, window: int | None) -> None:
    windows = {"qwen3:8b": 4096, "openai/ours": 9000, "deep/chat": 7000, "gpt-4o-mini": 5000}
    given = Environment.model_validate({"LAYOVER_CONTEXT_WINDOWS": json.dumps(windows)})
    assert window_of(model, given) == window


def test_window_of_a_model_that_nobody_named_is_the_catalogues() -> None:
    assert window_of("openai/gpt-4o-mini", Environment.model_validate({})) == 128_000


def test_price_of_a_model_is_known_though_its_prefix_is_the_deployments_own() -> None:
    given = environment({"cheap": PARAMETER})
    assert look_up_first(context_window, "cheap/gpt-4o-mini", given) == context_window(
        "gpt-4o-mini"
    )
    assert look_up_first(context_window, "cheap/unheard-of", given) is None


def test_runner_passes_the_providers_and_their_keys_on_to_its_functions() -> None:
    inherited = {"LAYOVER_PROVIDERS": "{}", "DEEP_KEY": "sk", "LAYOVER_PROVIDER": "bedrock"}
    given = child_variables(Runner(), inherited, {})
    assert (given["LAYOVER_PROVIDERS"], given["DEEP_KEY"]) == ("{}", "sk")
    assert "LAYOVER_PROVIDER" not in given


@pytest.mark.parametrize("name", ["LAYOVER_PROVIDER_KEY", "AWS_PARTNER_KEY", "PYTHON_KEY"])
def test_runner_passes_a_key_on_whatever_its_variable_is_called(name: str) -> None:
    address = {"base_url": "https://a.example", "api_key_env": name}
    inherited = {"LAYOVER_PROVIDERS": json.dumps({"deepseek": address}), name: "sk", "AWS_X": "no"}
    given = child_variables(Runner(), inherited, {})
    assert given[name] == "sk"
    assert "AWS_X" not in given


def test_key_variable_does_not_bring_the_developers_account_along() -> None:
    address = {"base_url": "https://a.example", "api_key_env": "AWS_ACCESS_KEY_ID"}
    inherited = {"LAYOVER_PROVIDERS": json.dumps({"d": address}), "AWS_ACCESS_KEY_ID": "AKIA"}
    assert child_variables(Runner(), inherited, {})["AWS_ACCESS_KEY_ID"] == "local"


@pytest.mark.parametrize("wrong", ["{", "[]", '{"d": 5}', '{"d": {"api_key_env": 5}}', ""])
def test_providers_that_cannot_be_read_are_left_to_the_functions(wrong: str) -> None:
    given = child_variables(Runner(), {"LAYOVER_PROVIDERS": wrong, "AWS_KEY": "no"}, {})
    assert given["LAYOVER_PROVIDERS"] == wrong
    assert "AWS_KEY" not in given


def test_key_in_plain_sight_is_not_deployed() -> None:
    plain = {"deepseek": {"base_url": "https://a.example", "api_key_env": "KEY"}}
    context = {"stages": "tests/infra", "providers": json.dumps(plain)}
    with pytest.raises(ValueError, match="name an api_key_parameter"):
        Settings.from_context(context)


async def test_servers_of_ones_own_are_asked_for_streams_which_a_cancel_ends(
    servers: list[FakeOpenAI],
) -> None:
    own, other = servers
    variables = {
        "OPENAI_BASE_URL": own.base_url,
        "LAYOVER_PROVIDERS": json.dumps({"gpu": {"base_url": other.base_url}}),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }
    model = make_model(
        Environment.model_validate(variables), lambda: "sk", variables, str, lambda: AwsServices({})
    )
    for name in ("openai/small", "gpu/small"):
        await model.complete(Prompt(model=name))
    await model.aclose()
    assert [r.body["stream"] for s in servers for r in s.requests] == [True, True]
