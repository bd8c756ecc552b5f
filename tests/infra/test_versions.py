"""Functions are published, and whatever invokes them invokes an alias: code and layer change together, and a
bad deployment goes back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cdk.settings import FUNCTIONS, Settings
from layover.desk.shipped import release
from support.aws.templates import Synthesized, listed

PUBLISHED = FUNCTIONS.keys() - {"migrate"}
"""CloudFormation invokes `migrate` itself, before anything is published."""


@pytest.fixture(params=["vpc", "plain", pytest.param("ten_lines", marks=pytest.mark.form)])
def stack(request: pytest.FixtureRequest) -> Synthesized:
    """With a user pool, with a provider of the deployer's, and in an app of one's own."""
    found: Synthesized = request.getfixturevalue(request.param)
    return found


def aliases(stack: Synthesized) -> dict[str, str]:
    """Logical ids of the aliases, by the functions to which they lead."""
    return {stack.function_behind(name): name for name in stack.of_type("AWS::Lambda::Alias")}


def references(value: Any) -> Iterator[str]:
    """Logical ids to which a part of a template refers."""
    if isinstance(value, dict):
        if isinstance(value.get("Ref"), str):
            yield value["Ref"]
        attribute = value.get("Fn::GetAtt")
        if attribute is not None:
            yield attribute[0]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def functions_in(stack: Synthesized, value: Any) -> set[str]:
    """Our own functions to which a part refers directly, by their logical ids."""
    made = stack.of_type("AWS::Lambda::Function")
    own = {n for n, r in made.items() if r["Properties"]["Handler"].startswith("functions.")}
    return own.intersection(references(value))


def test_every_function_has_an_alias_but_the_one_that_migrates(stack: Synthesized) -> None:
    assert aliases(stack).keys() == PUBLISHED
    names = {r["Properties"]["Name"] for r in stack.of_type("AWS::Lambda::Alias").values()}
    assert names == {"live"}


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("AWS::ApiGatewayV2::Integration", "IntegrationUri"),
        ("AWS::ApiGateway::Method", "Integration"),
        ("AWS::Events::Rule", "Targets"),
        ("AWS::StepFunctions::StateMachine", "DefinitionSubstitutions"),
        ("AWS::Lambda::Permission", "FunctionName"),
    ],
)
def test_whatever_invokes_invokes_the_alias(stack: Synthesized, kind: str, part: str) -> None:
    """Else it would get half of a deployment: new code with the old layer."""
    parts = [r["Properties"].get(part) for r in stack.of_type(kind).values()]
    assert set(references(parts)) & set(aliases(stack).values())
    assert functions_in(stack, parts) == set()


def test_functions_invoke_each_other_by_the_alias(stack: Synthesized) -> None:
    for function in stack.functions().values():
        variables = function["Environment"]["Variables"]
        for key in ("LAYOVER_COMPACT_FUNCTION", "LAYOVER_SOCKET_FUNCTION"):
            assert variables.get(key, ":live").endswith(":live")


def test_no_alias_moves_before_all_functions_are_published(stack: Synthesized) -> None:
    versions = stack.of_type("AWS::Lambda::Version").keys()
    assert len(versions) == len(PUBLISHED)
    for alias in stack.of_type("AWS::Lambda::Alias").values():
        assert versions <= {*alias["DependsOn"]}


def test_nothing_is_published_before_the_schema_is_there(stack: Synthesized) -> None:
    (schema,) = stack.of_type("Custom::LayoverSchema")
    for version in stack.of_type("AWS::Lambda::Version").values():
        assert schema in version["DependsOn"]


def test_last_versions_stay_for_the_way_back(stack: Synthesized) -> None:
    """But one whose deployment fails does not: Lambda would not publish the same again."""
    for version in stack.of_type("AWS::Lambda::Version").values():
        assert version["DeletionPolicy"] == "RetainExceptOnCreate"
        assert version["UpdateReplacePolicy"] == "Retain"
        assert version["Properties"]["Description"].startswith(f"Layover {release()} (")


def test_versions_of_a_deployment_know_each_other(stack: Synthesized) -> None:
    digests = {f["Description"].partition("(")[2] for f in stack.functions().values()}
    versions = stack.of_type("AWS::Lambda::Version").values()
    assert {v["Properties"]["Description"].partition("(")[2] for v in versions} == digests
    assert len(digests) == 1


def test_executions_from_before_the_aliases_may_go_on(stack: Synthesized) -> None:
    """They wait for up to a year in a definition that names the functions themselves."""
    policies = [r["Properties"] for r in stack.of_type("AWS::IAM::Policy").values()]
    (mine,) = (p for p in policies if "WorkflowRole" in json.dumps(p["Roles"]))
    (invoking,) = (
        s
        for s in mine["PolicyDocument"]["Statement"]
        if "lambda:InvokeFunction" in listed(s["Action"])
    )
    driven = ("turn", "resume", "extract", "compact", "settle")
    made = stack.of_type("AWS::Lambda::Function")
    ids = {r["Properties"]["Handler"].split(".")[1]: n for n, r in made.items()}
    itself: list[Any] = [{"Fn::GetAtt": [ids[name], "Arn"]} for name in driven]
    live = [{"Fn::Join": ["", [arn, ":live"]]} for arn in itself]
    assert sorted(map(json.dumps, invoking["Resource"])) == sorted(map(json.dumps, itself + live))


def test_apis_may_invoke_before_they_do(stack: Synthesized) -> None:
    """An alias is new once, and until then it refuses: requests would be answered with 500."""
    permissions = stack.of_type("AWS::Lambda::Permission")
    apis = stack.of_type("AWS::ApiGatewayV2::Integration").values()
    for integration in apis:
        api = integration["Properties"]["ApiId"]["Ref"]
        own = {n for n, p in permissions.items() if api in references(p["Properties"]["SourceArn"])}
        assert own
        assert own <= {*integration["DependsOn"]}
    (deployment,) = stack.of_type("AWS::ApiGateway::Deployment").values()
    first = set(deployment["DependsOn"]) & permissions.keys()
    assert len(first) == 1


@pytest.fixture
def built(tmp_path: Path) -> dict[str, str]:
    """Folders that stand for a build, as settings."""
    for name in ("layer", "code"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("A = 1\n")
    return {name: str(tmp_path / name) for name in ("layer", "code")}


def digest(**settings: Any) -> str:
    # Seconds, and a process of node's: for no worker that only collects.
    from layover.desk.cdk.constructs.versions import digest_of

    return digest_of(Settings(**settings))


def test_deployment_of_the_same_publishes_nothing(built: dict[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    (copy / "a.py").write_text("A = 1\n")
    assert digest(**built) == digest(**{**built, "layer": str(copy)})


@pytest.mark.parametrize(
    "changed",
    [
        {"stage": "prod"},
        {"restore_snapshot": "before"},
        {"revision": "2"},
        {"model": "openai/other"},
    ],
    ids=str,
)
def test_any_setting_publishes_all_functions(
    built: dict[str, str], changed: dict[str, str]
) -> None:
    """A version keeps the host of a cluster that a setting has replaced."""
    assert digest(**built) != digest(**built, **changed)


@pytest.mark.parametrize("part", ["layer", "code"])
def test_another_layer_or_code_publishes_all_functions(built: dict[str, str], part: str) -> None:
    before = digest(**built)
    (Path(built[part]) / "a.py").write_text("A = 2\n")
    assert digest(**built) != before
