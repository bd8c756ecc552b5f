"""`layover models`: what a deployment can reach, without asking anybody."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layover import Agent, ModelSettings
from layover.desk.cli.models.command import main
from layover.desk.cli.models.listing import Listing, json_of, lines_of, list_models, of_stage
from layover.models import Model, OnDelta, Prompt, Reply
from layover.project import FILE, find
from layover.values.deployment.environment import Environment

MISTRAL = {"mistral": {"base_url": "https://api.mistral.ai/v1", "api_key_env": "MISTRAL_API_KEY"}}
MODELS = ["openai/gpt-4o-mini", "mistral/a-model-of-ours"]


class ScriptedOwn(Model):
    """A model that an author has brought."""

    name = "acme/large"

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        raise AssertionError("nobody asks it")


def listing(agent: Agent | None = None, **variables: str) -> Listing:
    shop = agent or Agent("shop", model=MODELS)
    return list_models({"shop": shop}, Environment.model_validate(variables), variables)


def providers(**variables: str) -> dict[str, str]:
    return {
        line.name: "" if line.configured else line.set
        for line in listing(None, **variables).providers
    }


def test_a_provider_that_is_not_configured_says_what_to_set() -> None:
    found = providers()
    assert found["openai"] == "set OPENAI_API_KEY, or OPENAI_BASE_URL of a server of yours"
    assert found["anthropic"] == "set ANTHROPIC_API_KEY"
    assert found["gemini"] == "set GEMINI_API_KEY"
    assert found["bedrock"].startswith("set AWS_REGION")
    text = found["mistral"]
    assert text.startswith("set LAYOVER_PROVIDERS=")
    told = json.loads(text.removeprefix("set LAYOVER_PROVIDERS=").partition(" and ")[0])
    assert told == MISTRAL
    assert text.endswith(" and MISTRAL_API_KEY")


def test_a_named_provider_without_its_key_is_not_configured() -> None:
    named = {"LAYOVER_PROVIDERS": json.dumps(MISTRAL)}
    assert providers(**named)["mistral"] == "set MISTRAL_API_KEY"
    assert providers(**named, MISTRAL_API_KEY="k")["mistral"] == ""
    assert providers(OPENAI_API_KEY="k")["openai"] == ""
    assert providers(ANTHROPIC_API_KEY="k")["anthropic"] == ""
    assert providers(AWS_REGION="eu-central-1")["bedrock"] == ""


def test_models_have_price_window_and_features() -> None:
    first, second = listing(OPENAI_API_KEY="k", LAYOVER_PROVIDERS=json.dumps(MISTRAL)).models
    assert (first.provider, first.reachable) == ("openai", True)
    assert first.input_usd == Decimal("0.15")
    assert first.window == 128_000
    assert "images" in first.features
    assert "reasoning" not in first.features
    assert (second.provider, second.reachable, second.set) == (
        "mistral",
        False,
        "set MISTRAL_API_KEY",
    )
    assert (second.input_usd, second.window) == (None, None)


def test_a_window_that_nobody_knows_says_what_to_set() -> None:
    ours = Agent("shop", model="ours")
    (line,) = listing(ours, OPENAI_API_KEY="k").models
    assert line.set == 'set LAYOVER_CONTEXT_WINDOWS={"ours": TOKENS}'
    windows = '{"ours": 9000}'
    (line,) = listing(ours, OPENAI_API_KEY="k", LAYOVER_CONTEXT_WINDOWS=windows).models
    assert (line.window, line.set) == (9_000, "")
    settings = ModelSettings(context_window=7_000)
    (line,) = listing(Agent("shop", model="ours", model_settings=settings)).models
    assert line.window == 7_000


def test_a_server_of_ones_own_has_no_features_of_openai() -> None:
    (line,) = listing(Agent("shop", model="m"), OPENAI_BASE_URL="http://127.0.0.1:1/v1").models
    assert line.features == ()


def test_an_agent_without_a_model_has_the_deployments() -> None:
    (line,) = listing(Agent("shop"), LAYOVER_MODEL="openai/gpt-4o").models
    assert line.model == "openai/gpt-4o"


def test_a_model_of_the_authors_is_reached_by_whoever_made_it() -> None:
    agent = Agent("shop", model=[ScriptedOwn(), "openai/gpt-4o"])
    own, other = listing(agent).models
    assert (own.model, own.provider) == ("acme/large", "an object of the agent's author")
    assert (own.reachable, own.features, own.input_usd) == (True, (), None)
    assert not other.reachable


def test_no_key_is_shown() -> None:
    shown = listing(OPENAI_API_KEY="sk-secret", ANTHROPIC_API_KEY="sk-secret")
    assert "sk-secret" not in "\n".join(lines_of(shown)) + json_of(shown)


def test_lines_and_json_say_the_same_models() -> None:
    shown = listing(OPENAI_API_KEY="k")
    told: Any = json.loads(json_of(shown))
    assert [each["model"] for each in told["models"]] == MODELS
    assert Decimal(told["models"][0]["output_usd"]) == Decimal("0.60")
    text = "\n".join(lines_of(shown))
    assert "0.15 / 0.60 USD" in text
    assert "window 128,000 tokens" in text


def test_agents_come_before_providers_and_what_is_there_before_what_is_not() -> None:
    lines = lines_of(listing(OPENAI_API_KEY="k"))
    others = lines.index("others, and what each needs")
    assert lines[0] == "models of the agents"
    assert lines.index("  openai") == lines.index("configured providers") + 1
    assert any(line.split() == ["gemini", "set", "GEMINI_API_KEY"] for line in lines[others:])


def test_nothing_configured_is_said() -> None:
    lines = lines_of(listing())
    assert lines[lines.index("configured providers") + 1] == "  none"


def test_a_stage_has_its_own_settings() -> None:
    stage = {"provider": "bedrock", "model": "bedrock/m", "providers": MISTRAL}
    variables = of_stage(stage, None)
    environment = Environment.model_validate(variables)
    assert (environment.provider, environment.model) == ("bedrock", "bedrock/m")
    assert list(environment.providers) == ["mistral"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / FILE).write_text('agents = "wares_agents"\n[stages.live]\nmodel = "gpt-4o"\n')
    agent = "from layover import Agent\nwares = Agent('wares')\n"
    (tmp_path / "wares_agents.py").write_text(agent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return find(tmp_path)


def test_command_lists_the_agents_of_the_project(
    project: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(None, "live", project, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["agent"], each["model"]) for each in told["models"]] == [("wares", "gpt-4o")]


def test_unknown_stage_is_refused(project: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(None, "life", project, as_json=False) == 2
    assert "live" in capsys.readouterr().err
