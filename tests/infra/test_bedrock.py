"""`-c provider=bedrock`: the roles ask the named models, and there is no key."""

import json
from typing import Any

import pytest

from layover.desk.cdk.settings import FUNCTIONS, Settings
from layover.desk.cdk.variables import EMBEDS, READS
from support.aws.forms import CLAUDE, FORMS, GPT, TITAN
from support.aws.templates import Synthesized, listed

CONTEXT = FORMS["bedrock"]
ASK = ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"]
NAMES = sorted(FUNCTIONS)
ASKING = {name for name in NAMES if FUNCTIONS[name].model}
EMBEDDING = {name for name in NAMES if EMBEDS in READS[name]}


def plain(value: Any) -> str:
    """An ARN with the references written out: `<AWS::Region>`."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    separator, parts = value["Fn::Join"]
    return str(separator).join(map(plain, parts))


def about_models(stack: Synthesized, name: str) -> list[dict[str, Any]]:
    """The statements of a function's role that are about Bedrock."""
    return [s for s in stack.statements(name) if "bedrock:" in json.dumps(s["Action"])]


def foundation(region: str, name: str) -> str:
    return f"arn:<AWS::Partition>:bedrock:{region}::foundation-model/{name}"


PROFILE = (
    "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:inference-profile/eu." + CLAUDE
)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"model": None}, "needs a model"),
        ({"model": "openai/gpt-5-mini"}, "Bedrock wants models by id"),
        ({"models": "anthropic.*"}, "Bedrock wants models by id"),
        (
            {"models": f"arn:aws:bedrock:eu-central-1::foundation-model/{GPT}"},
            "Bedrock wants models by id",
        ),
        (
            {"embedder_model": "openai/text-embedding-3-small"},
            "Bedrock wants an embedder_model by id",
        ),
        (
            {"embedder_model": "bedrock/cohere.embed-v4:0"},
            "has embedder_model=bedrock/amazon.titan",
        ),
        ({"openai_base_url": "https://models.example/v1"}, "openai_base_url"),
        ({"api_key_parameter": "/a/key"}, "api_key_parameter"),
        ({"provider": "azure"}, "provider"),
    ],
)
def test_what_bedrock_cannot_do_is_refused_before_anything_is_made(
    more: dict[str, str | None], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Settings.from_context(CONTEXT | more)


def test_pattern_of_models_is_refused_beside_another_provider_too() -> None:
    given = {"stages": "tests/infra", "models": "openai/other, bedrock/anthropic.*"}
    with pytest.raises(ValueError, match="Bedrock wants models by id"):
        Settings.from_context(given)


@pytest.mark.parametrize(
    ("models", "asked"),
    [
        (f"openai/other, bedrock/{GPT}, deepseek/chat", [foundation("<AWS::Region>", GPT)]),
        (f"bedrock/eu.{CLAUDE}", [PROFILE, foundation("*", CLAUDE)]),
        ("openai/other, anthropic/claude", []),
    ],
)
def test_models_of_bedrock_are_allowed_beside_another_provider(
    models: str, asked: list[str]
) -> None:
    folder = {"stages": "tests/infra"}
    given = folder | {"models": models, "embedder_model": f"bedrock/{TITAN}"}
    settings = Settings.from_context(given)
    # Seconds: for no worker that only collects.
    from aws_cdk import App, Stack

    from layover.desk.cdk.constructs.models import model_statements

    stack = Stack(App(), "Layover")
    made = [
        stack.resolve(s.to_statement_json())
        for s in model_statements(stack, settings, asks=True, embeds=True)
    ]
    allowed = {(plain(s["Resource"]), action) for s in made for action in listed(s["Action"])}
    embeds = (foundation("<AWS::Region>", TITAN), "bedrock:InvokeModel")
    assert allowed == {(arn, action) for arn in asked for action in ASK} | {embeds}


def test_embedder_of_this_machine_needs_no_permission() -> None:
    settings = Settings.from_context(CONTEXT | {"embedder_model": "hashing/256"})
    assert settings.bedrock_embedders == ()


def test_no_rule_is_broken_silently(bedrock: Synthesized) -> None:
    assert "ERROR" not in bedrock.said
    assert "WARNING" not in bedrock.said


@pytest.mark.form
def test_cfn_lint_has_nothing_to_say(bedrock: Synthesized) -> None:
    assert bedrock.linted() == []


def test_only_what_asks_models_may_ask_them(bedrock: Synthesized) -> None:
    assert {name for name in NAMES if about_models(bedrock, name)} == ASKING | EMBEDDING


@pytest.mark.parametrize("name", sorted(ASKING | EMBEDDING))
def test_role_allows_the_named_models_and_no_other(bedrock: Synthesized, name: str) -> None:
    allowed = {
        (plain(resource), action)
        for statement in about_models(bedrock, name)
        for resource in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }
    asked = [
        foundation("<AWS::Region>", GPT),
        foundation("<AWS::Region>", "openai.gpt-5.4"),
        PROFILE,
        foundation("*", CLAUDE),
    ]
    asks = {(arn, action) for arn in asked for action in ASK}
    embeds = {(foundation("<AWS::Region>", TITAN), "bedrock:InvokeModel")}
    assert allowed == (asks if name in ASKING else set()) | (embeds if name in EMBEDDING else set())


@pytest.mark.parametrize("name", sorted(ASKING))
def test_model_in_any_region_is_asked_through_its_profile_alone(
    bedrock: Synthesized, name: str
) -> None:
    (anywhere,) = (
        s for s in about_models(bedrock, name) if "bedrock:*" in plain(listed(s["Resource"])[0])
    )
    condition = anywhere["Condition"]["StringEquals"]
    assert plain(condition["bedrock:InferenceProfileArn"]) == PROFILE


def test_there_is_no_key(bedrock: Synthesized) -> None:
    assert "ssm:GetParameter" not in json.dumps([bedrock.statements(n) for n in NAMES])
    variables = {v for f in bedrock.functions().values() for v in f["Environment"]["Variables"]}
    assert variables.isdisjoint({"LAYOVER_API_KEY_PARAMETER", "OPENAI_BASE_URL"})
    assert "ModelKeyParameter" not in bedrock.template["Outputs"]


@pytest.mark.parametrize("name", sorted(ASKING | EMBEDDING))
def test_functions_are_told_who_answers(bedrock: Synthesized, name: str) -> None:
    variables = bedrock.functions()[name]["Environment"]["Variables"]
    assert variables["LAYOVER_PROVIDER"] == "bedrock"
    assert variables["LAYOVER_MODEL"] == f"bedrock/{GPT}"
    embedder = f"bedrock/{TITAN}" if name in EMBEDDING else None
    assert variables.get("LAYOVER_EMBEDDER_MODEL") == embedder


def test_nothing_about_bedrock_is_in_any_other_deployment(plain: Synthesized) -> None:
    text = json.dumps(plain.template)
    assert "bedrock" not in text
    assert "LAYOVER_PROVIDER" not in text
