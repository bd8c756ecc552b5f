"""Settings of a deployer, and those that are refused before anything is made."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from infra.calls import CALLS
from infra.regions import unfit
from infra.settings import FUNCTIONS, Settings
from layover.retention.erase import LAST_WRITER
from layover.values.deployment.settings import Settings as RuntimeSettings

ROOT = Path(__file__).parents[2]


def said(context: Mapping[str, object]) -> Settings:
    """Settings of a context as the command line gives it."""
    return Settings.from_context({"stages": "none", **context}.get)


def kept(folder: Path, stage: str, text: str) -> dict[str, str]:
    """The context that says where the file of a stage is."""
    (folder / f"{stage}.json").write_text(text)
    return {"stages": str(folder), "stage": stage}


@pytest.mark.parametrize(
    "context",
    [
        {"database": "mysql"},
        {"stage": "Not A Name"},
        {"retain": "perhaps"},
        # Tokens that the provider made for other applications would be taken.
        {"issuer": "https://login.example"},
        # The stack's own user pool gives no other scopes.
        {"scope": "shop/use"},
        {"act_as_scope": "shop/act-as"},
        {"operate_scope": "shop/operate"},
        # Cognito takes no domain with such a word in it.
        {"stage": "aws"},
        {"stage": "laws"},
        {"stage": "mycognito"},
        # SSM keeps these for itself.
        {"api_key_parameter": "/aws/key"},
        {"api_key_parameter": "ssm-key"},
        {"nat": "none"},
        {
            "vpc_id": "vpc-0a",
            "function_subnets": "subnet-0a",
            "database_subnets": "subnet-0b,subnet-0c",
        },
        {"nat": "none", "vpc_id": "vpc-0a"},
        {"function_subnets": "a", "nat": "none", "vpc_id": "vpc-0a", "database_subnets": "b,c"},
        {"function_subnets": "subnet-0a"},
        {"nat_ami": "ami-0a", "nat": "gateway"},
        {"mfa": "off", "issuer": "https://id.example", "audience": "a"},
        {"mfa": "perhaps"},
        {"machine_client": "true", "issuer": "https://id.example", "audience": "a"},
        {"sign_up": "true", "daily_tokens": "9", "issuer": "https://id.example", "audience": "a"},
        {"adopt_user_pool": "eu-west-1_A", "issuer": "https://id.example", "audience": "a"},
        {"adopt_bucket": "s3://bucket"},
    ],
    ids=lambda context: next(iter(context)),
)
def test_what_makes_no_sense_is_refused(context: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=next(iter(context))):
        said(context)


def test_stage_of_the_form_that_is_gone_is_told_what_to_do(tmp_path: Path) -> None:
    for context in ({"database": "express"}, kept(tmp_path, "dev", '{"database": "express"}')):
        with pytest.raises(ValidationError, match=r"database=express is gone.*Remove `database`"):
            said(context)


def test_nothing_said_is_a_deployment_that_keeps_its_data() -> None:
    settings = said({})
    assert settings.retain is True
    assert settings.origins == ()


def test_what_a_stage_keeps_holds_for_every_deployment_of_it(tmp_path: Path) -> None:
    context = kept(
        tmp_path, "prod", '{"alarms_email": "ann@example.com", "origins": ["https://a.b"]}'
    )
    settings = said(context)
    assert settings.stage == "prod"
    assert settings.alarms_email == "ann@example.com"
    assert settings.origins == ("https://a.b",)
    assert said(context | {"stage": "dev"}).alarms_email is None


def test_command_line_wins_over_what_a_stage_keeps(tmp_path: Path) -> None:
    context = kept(tmp_path, "dev", '{"retain": true, "alarms_email": "ann@example.com"}')
    settings = said(context | {"retain": "false"})
    assert settings.retain is False
    assert settings.alarms_email == "ann@example.com"


@pytest.mark.parametrize(
    "text", ['{"stage": "other"}', '{"alarm_email": "a@b"}', "[]", "{"], ids=str
)
def test_file_of_a_stage_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"dev\.json|alarm_email"):
        said(kept(tmp_path, "dev", text))


def test_command_line_gives_lists_with_commas() -> None:
    settings = said({"origins": "https://a.example, https://b.example", "retain": "false"})
    assert settings.origins == ("https://a.example", "https://b.example")
    assert settings.retain is False


def test_tools_secret_is_where_ssm_takes_one() -> None:
    with pytest.raises(ValidationError, match="/aws"):
        Settings(tool_secrets={"KEY": "/aws/key"})


@pytest.mark.parametrize(
    ("settings", "protects"),
    [
        (Settings(), True),
        (Settings(protection=False), False),
        (Settings(retain=False), False),
    ],
    ids=["kept", "on-its-way-out", "thrown-away"],
)
def test_what_is_retained_is_protected(settings: Settings, protects: bool) -> None:
    assert settings.protects is protects


@pytest.mark.parametrize(
    ("region", "says"),
    [
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("us-iso-east-1", "aws-iso"),
        ("eusc-de-east-1", "aws-eusc"),
        ("eu-west-9", "eu-west-9 has no"),
        ("nowhere", "nowhere is not a region"),
    ],
)
def test_region_that_cannot_work_is_named(region: str, says: str) -> None:
    wrong = unfit(region, Settings())
    assert wrong is not None
    assert says in wrong


def test_region_that_can_work_is_fine_and_none_is_nobodys_business() -> None:
    assert unfit("eu-west-1", Settings()) is None
    assert unfit(None, Settings()) is None


def test_app_refuses_such_a_region_before_it_makes_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The app here has a context and nothing else: whatever is made in it fails otherwise."""
    from infra.app import define

    monkeypatch.setenv("CDK_DEFAULT_REGION", "cn-north-1")
    app: Any = SimpleNamespace(node=SimpleNamespace(try_get_context={}.get))
    with pytest.raises(SystemExit, match="cn-north-1 is in the partition aws-cn"):
        define(app)


def test_two_stages_share_no_name() -> None:
    one, other = said({"stage": "one"}), said({"stage": "other"})
    assert one.prefix != other.prefix
    assert one.key_parameter != other.key_parameter


@pytest.mark.parametrize(
    ("context", "waits"),
    [
        ({}, 60),
        ({"api_concurrency": "10"}, 6),
        ({"api_concurrency": "0"}, 5),
        ({"max_waits": "0"}, 0),
    ],
    ids=str,
)
def test_not_all_that_answers_requests_may_wait(context: dict[str, str], waits: int) -> None:
    assert said(context).waits == waits


def test_every_function_has_its_permissions() -> None:
    assert FUNCTIONS.keys() == CALLS.keys()


def test_command_line_of_the_cdk_is_pinned_and_its_lock_names_no_host() -> None:
    """3.0.0 is an accidental release; a lock that names a registry works only where that registry does."""
    package = json.loads((ROOT / "package.json").read_text())
    assert package["devDependencies"]["aws-cdk"] == "2.1148.1"
    assert all(version[0].isdigit() for version in package["devDependencies"].values())
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert all("resolved" not in each for each in lock["packages"].values())
    assert lock["packages"]["node_modules/aws-cdk"]["integrity"].startswith("sha512-")


def test_a_deleted_thread_is_emptied_again_when_no_function_of_before_can_live() -> None:
    emptied_again = RuntimeSettings().sweep_patience * LAST_WRITER
    assert emptied_again > max(settings.timeout for settings in FUNCTIONS.values())
