"""Two projects in one account: the stack of one is never another's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from layover.desk.cdk import preflight
from layover.desk.cdk.adoption import Client, of_another
from layover.desk.cdk.deployed import Place, find
from layover.desk.cdk.settings import Settings
from layover.desk.cli.scaffold import make_project
from layover.desk.cli.users import add
from layover.project import FILE, read
from support.aws.mocked import REGION, make_client
from support.aws.templates import Synthesized

MACHINE = f"arn:aws:states:{REGION}:123456789012:stateMachine:"
MINE, THEIRS = "a1b2c3d4e5f6", "f6e5d4c3b2a1"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    with mock_aws():
        yield make_client


def deploy(client: Client, settings: Settings, stack: str = "", id: str = "Agents") -> None:
    """A stage as the construct leaves it."""
    outputs = {f"{id}StateMachineArn": f"{MACHINE}{settings.prefix}-run"}
    if settings.project:
        outputs[f"{id}Project"] = settings.project
    make_stack(client, stack or settings.prefix, outputs)


def make_stack(client: Client, name: str, outputs: dict[str, str]) -> None:
    template = {
        "Resources": {"T": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))


def refused(client: Client, settings: Settings, *, takes_over: bool = False) -> str:
    system = find(settings.prefix, client("cloudformation"))
    place = None if system is None else system.place
    return of_another(settings, client, place, takes_over=takes_over) or ""


# Whose a stack is


@pytest.mark.parametrize(("mine", "this"), [(MINE, f"this one is '{MINE}'"), ("", "has none")])
def test_stack_of_another_project_is_refused_with_both_ways_to_mend_it(
    mine: str, this: str, client: Client
) -> None:
    deploy(client, Settings(name="shop", project=THEIRS))
    told = refused(client, Settings(name="shop", project=mine))
    assert told.startswith(
        f"the stack shop-dev was made by another project, whose id is '{THEIRS}'"
    )
    assert this in told
    assert "give this project another `name` in layover.toml" in told
    assert f'write id = "{THEIRS}" at the top of layover.toml' in told


def test_stack_of_another_project_cannot_be_taken_over(client: Client) -> None:
    deploy(client, Settings(name="shop", project=THEIRS))
    assert refused(client, Settings(name="shop", project=MINE), takes_over=True)


def test_stack_that_does_not_tell_its_project_is_taken_over_by_who_says_so(client: Client) -> None:
    deploy(client, Settings(name="shop"))
    mine = Settings(name="shop", project=MINE)
    assert "add --take-over, once" in refused(client, mine)
    assert refused(client, mine, takes_over=True) == ""


def test_stack_of_another_application_is_not_replaced(client: Client) -> None:
    make_stack(client, "shop-dev", {"QueueUrl": "https://queue.example"})
    mine = Settings(name="shop", project=MINE)
    assert "the stack shop-dev has no system of Layover" in refused(client, mine)
    assert refused(client, mine, takes_over=True) == ""


def test_system_in_a_stack_of_ones_own_is_known_by_its_construct(client: Client) -> None:
    deploy(client, Settings(name="shop", project=THEIRS), stack="company", id="Chat")
    told = refused(client, Settings(name="shop", project=MINE))
    assert told.startswith("the stack company was made by another project")


@pytest.mark.parametrize("project", [MINE, ""])
def test_own_stack_is_deployed_again(project: str, client: Client) -> None:
    """A project without an id is one that was made before projects had one, as this repository is."""
    deploy(client, Settings(name="shop", project=project))
    assert refused(client, Settings(name="shop", project=project)) == ""


def test_first_deployment_is_nobodys(client: Client) -> None:
    assert refused(client, Settings(name="shop", project=MINE)) == ""


class Broken:
    """CloudFormation with a stack whose first deployment failed and was not rolled back."""

    def __init__(self, outputs: dict[str, Any]) -> None:
        self._template = {"Resources": {}, "Outputs": outputs}

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": "CREATE_FAILED"}]}

    def get_template(self, **_: str) -> dict[str, Any]:
        return {"TemplateBody": self._template}


@pytest.mark.parametrize(("project", "is_refused"), [(MINE, False), (THEIRS, True)])
def test_stack_that_was_never_complete_is_known_by_its_template(
    project: str, is_refused: bool
) -> None:
    """It has no values of outputs."""
    outputs = {
        "AgentsStateMachineArn": {"Value": {"Ref": "M"}},
        "AgentsProject": {"Value": project},
    }
    broken = Broken(outputs)
    told = of_another(Settings(name="shop", project=MINE), lambda _: broken, None)
    assert bool(told) is is_refused


def test_place_of_the_whole_stack_is_the_one_of_the_stage(client: Client) -> None:
    deploy(client, Settings(project=THEIRS), id="")
    assert of_another(Settings(project=MINE), client, Place())


# By the commands


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two projects as `layover init` makes them, in folders of one name."""
    roots = tmp_path / "ann" / "shop", tmp_path / "bea" / "shop"
    for root in roots:
        make_project(root, "support")
    return roots


def of_project(root: Path, stage: str = "dev") -> Settings:
    return Settings.from_context({"stage": stage}, root=root)


def test_projects_of_other_names_have_other_stacks(tmp_path: Path) -> None:
    for name in ("shop", "warehouse"):
        make_project(tmp_path / name, "support")
    prefixes = {of_project(tmp_path / name).prefix for name in ("shop", "warehouse")}
    assert prefixes == {"shop-dev", "warehouse-dev"}


def test_second_project_of_a_name_is_not_deployed_into_the_first_ones_stack(
    two: tuple[Path, Path],
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = two
    deploy(client, of_project(first))
    where = ["--owner", "--region", REGION]
    monkeypatch.chdir(first)
    assert preflight.main(where) == 0
    monkeypatch.chdir(second)
    assert preflight.main(where) == 1
    assert preflight.main([*where, "--take-over"]) == 1
    told = capsys.readouterr().err
    assert "the stack shop-dev was made by another project" in told
    toml = second / FILE
    toml.write_text(toml.read_text().replace('name = "shop"', 'name = "shop-two"'))
    assert preflight.main(where) == 0


class NoQuotas:
    """A session whose credentials may not look at the quotas of the account."""

    region_name = REGION

    def client(self, service: str) -> Any:
        """As boto3's."""
        if service == "lambda":
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetAccountSettings")
        return make_client(service)


def test_whose_the_stack_is_counts_although_later_checks_may_not_be_made(
    two: tuple[Path, Path], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two
    deploy(client, of_project(first))
    monkeypatch.setattr("boto3.Session", NoQuotas)
    monkeypatch.chdir(second)
    assert preflight.main([]) == 1
    monkeypatch.chdir(first)
    assert preflight.main([]) == 0


def test_commands_in_a_folder_below_mean_the_projects_own_stack(
    two: tuple[Path, Path], client: Client, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(two[0] / "agents")
    assert add("ann@example.com", "dev", client, project=read(two[0])) == 1
    assert "no stack of this account and region has shop-dev" in capsys.readouterr().err


def test_checkout_keeps_its_name_and_tells_no_project() -> None:
    root = Path(__file__).parents[2]
    settings = Settings.from_context({}, root=root)
    assert (settings.prefix, settings.project) == ("layover-dev", "")


def test_stack_tells_its_project(vpc: Synthesized, plain: Synthesized) -> None:
    assert vpc.template["Outputs"]["Project"]["Value"] == "a1b2c3d4e5f6"
    assert "Project" not in plain.template["Outputs"]
