"""Settings of a deployer, and those that are refused before anything is made."""

import json
import re
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from layover.desk.cdk.calls import CALLS
from layover.desk.cdk.regions import streaming_caution, unfit
from layover.desk.cdk.settings import FUNCTIONS, LOOKED_UP_BY_THE_CDK, Settings
from layover.retention.erase import LAST_WRITER
from layover.values.deployment.settings import Settings as RuntimeSettings

ROOT = Path(__file__).parents[2]
NO_STAGES = str(Path(__file__).parent)
"""A folder that has no stage's file."""


IN_A_VPC = {
    "https_proxy": "",
    "nat": "none",
    "vpc_id": "vpc-0a",
    "function_subnets": "subnet-0a",
    "database_subnets": "subnet-0b,subnet-0c",
}


def said(context: Mapping[str, object]) -> Settings:
    """Settings of a context as the command line gives it."""
    return Settings.from_context({"stages": NO_STAGES, **context})


def kept(folder: Path, stage: str, text: str) -> dict[str, str]:
    """The context that says where the file of a stage is."""
    (folder / f"{stage}.json").write_text(text)
    return {"stages": str(folder), "stage": stage}


@pytest.mark.parametrize(
    "context",
    [
        {"stage": "Not A Name"},
        {"retain": "perhaps"},
        # Tokens that the provider made for other applications would be taken.
        {"issuer": "https://login.example"},
        # The stack's own user pool gives no other scopes.
        {"scope": "shop/use"},
        {"act_as_scope": "shop/act-as"},
        {"operate_scope": "shop/operate"},
        # Of the stack's own pool, and nothing that Cognito refuses.
        {"groups": "finance", "issuer": "https://id.example", "audience": "a"},
        {"groups": "finance", "adopt_user_pool": "eu-west-1_Before"},
        {"groups": "finance,two words"},
        {"callback_urls": "https://a.example/", "issuer": "https://id.example", "audience": "a"},
        {"callback_urls": "http://a.example/"},
        {"callback_urls": "https://a.example/,a.example/back"},
        {"callback_urls": "https://a.example/#/signed-in"},
        {"callback_urls": "https://*.a.example/"},
        {"callback_urls": "https:///back"},
        {"callback_urls": "javascript:alert(1)"},
        {"callback_urls": "https://[/"},
        {"machine_scopes": "operate"},
        {"machine_scopes": "act-as", "machine_client": "true"},
        {"machine_scopes": "layover/operate", "machine_client": "true"},
        # People ask the pool for what its tokens have.
        {"login_scope": "api://layover/use"},
        {"token_url": "https://tokens.example/token"},
        {
            "token_url": "https://a.example; script-src *",
            "issuer": "https://id.example",
            "audience": "a",
        },
        {"operate_group": "two words"},
        {"audit_group": "a" * 129},
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
        {"vpc_id": "vpc-0a", "nat": "none"},
        {"function_subnets": "a", "nat": "none", "vpc_id": "vpc-0a", "database_subnets": "b,c"},
        {"function_subnets": "subnet-0a"},
        {"nat_ami": "ami-0a", "nat": "gateway"},
        {"https_proxy": "http://proxy.example:3128"},
        {"no_proxy": "example.com"},
        {**IN_A_VPC, "https_proxy": "proxy.example:3128"},
        {**IN_A_VPC, "https_proxy": "socks5://proxy.example"},
        {**IN_A_VPC, "https_proxy": "http://ann:secret@proxy.example:3128"},
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
    with pytest.raises(ValueError, match=next(iter(context))):
        said(context)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"stge": "prod"}, "the context (-c, cdk.json): no setting 'stge': did you mean 'stage'?"),
        (
            {"Stage": "prod"},
            "the context (-c, cdk.json): no setting 'Stage': did you mean 'stage'?",
        ),
        (
            {"api-concurrency": "0"},
            "the context (-c, cdk.json): no setting 'api-concurrency': did you mean 'api_concurrency'?",
        ),
        # Nothing is near these, and nothing of the CDK's is called so.
        (
            {"daily-budget": "3"},
            "the context (-c, cdk.json): no setting 'daily-budget'; "
            "docs/reference/configuration.md lists the settings",
        ),
        (
            {"stage:": "prod"},
            "the context (-c, cdk.json): no setting 'stage:': did you mean 'stage'?",
        ),
        (
            {"retian:x": "false"},
            "the context (-c, cdk.json): no setting 'retian:x': did you mean 'retain'?",
        ),
        # An unset variable of the shell: `-c stage=$STAGE`.
        ({"stage": ""}, "stage is empty: leave it out, or give it a value"),
        ({"retain": ""}, "retain is empty: leave it out, or give it a value"),
        (
            {"stages": "infra/stagse"},
            "there is no folder infra/stagse for the files of the stages",
        ),
        (
            {"zzz": "1"},
            "the context (-c, cdk.json): no setting 'zzz'; "
            "docs/reference/configuration.md lists the settings",
        ),
        (
            {"tool_env": "{}"},
            "the context (-c, cdk.json): tool_env cannot be given there: write it in infra/settings.py",
        ),
        ({"provider": "bedrok"}, "provider cannot be 'bedrok': did you mean 'bedrock'?"),
        (
            {"stage": "laws"},
            "stage cannot be 'laws': Cognito refuses names with aws, amazon, cognito in them",
        ),
        (
            {"api_key_parameter": "/aws/key"},
            "api_key_parameter cannot name '/aws/key': SSM keeps /aws and /ssm for itself",
        ),
        (
            {"function_subnets": "a", "nat": "none", "vpc_id": "vpc-0a", "database_subnets": "b,c"},
            "function_subnets and database_subnets must be ids, like subnet-0123456789abcdef0, not 'a'",
        ),
        (
            {"providers": "{"},
            "providers must be JSON, like {NAME: {base_url: ...}}: Expecting property name enclosed in "
            "double quotes: line 1 column 2 (char 1)",
        ),
        ({"mfa": "zzz"}, "mfa must be 'required', 'optional' or 'off', not 'zzz'"),
        (
            {"run_retention_days": "0", "retain": "perhaps"},
            "retain must be a valid boolean, unable to interpret input, not 'perhaps'\n"
            "run_retention_days must be greater than or equal to 1, not '0'",
        ),
    ],
    ids=str,
)
def test_wrong_setting_is_named_with_what_was_given_and_what_is_expected(
    context: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        said(context)


def test_mistyped_setting_in_a_stages_file_is_named_with_the_file(tmp_path: Path) -> None:
    message = f"{tmp_path}/prod.json: no setting 'retian': did you mean 'retain'?"
    with pytest.raises(ValueError, match=re.escape(message)):
        said(kept(tmp_path, "prod", '{"retian": false}'))


def test_names_of_the_cdk_in_the_context_are_none_of_ours() -> None:
    theirs = {
        "@aws-cdk/core:target-partitions": ["aws"],
        "@company/stage:size": "large",
        "aws:cdk:version-reporting": True,
        "aws-cdk:enableDiffNoFail": "true",
        "cli-telemetry": False,
        "acknowledged-issue-numbers": [1],
        "company:cost-center": "4711",
    }
    # Seconds: for no worker that only collects.
    from aws_cdk.cloud_assembly_schema import ContextProvider

    assert len(LOOKED_UP_BY_THE_CDK) == len(ContextProvider)
    looked_up: dict[str, Any] = {
        f"{kind}:account=1:region=eu-west-1": {} for kind in LOOKED_UP_BY_THE_CDK
    }
    assert said({**theirs, **looked_up}) == said({})


def test_an_empty_list_of_the_command_line_is_an_empty_list(tmp_path: Path) -> None:
    context = kept(tmp_path, "dev", '{"origins": ["https://a.example"]}')
    assert said(context | {"origins": ""}).origins == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"tool_policies": [{"actions": ["s3:*"], "resources": ["*"], "condition": {}}]}',
            "tool_policies.0: no option 'condition'",
        ),
        (
            '{"functions": {"turn": {"memory_mb": 2048}}}',
            "functions.turn: no option 'memory_mb': did you mean 'memory_mib'?",
        ),
        (
            '{"functions": {"trun": {"memory_mib": 2048, "timeout": 60}}}',
            "functions: no function 'trun': did you mean 'turn'?",
        ),
        (
            '{"functions": {"turn": {"memory_mib": 2048, "timeout": 60}}}',
            "functions: api, resume, extract, compact, settle, sweep, sockets, streams, notify, "
            "migrate are missing",
        ),
        (
            '{"context_windows": {"some": 0}}',
            "context_windows.some must be greater than or equal to 1, not 0",
        ),
        ('{"stages": "other"}', "a file cannot say where it is: give `stages` with -c"),
        ('{"retain": false, "retain": true}', "has 'retain' twice"),
        ('{"functions": {"turn": {"timeout": 1, "timeout": 2}}}', "has 'timeout' twice"),
    ],
    ids=str,
)
def test_mistyped_name_inside_a_setting_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        said(kept(tmp_path, "dev", text))


PROJECT = """
[stages.prod]
retain = true
daily_cost_usd = 2.5
origins = ["https://shop.example"]
[stages.prod.tool_env]
SHOP = "https://api.shop.example"
[stages.dev]
"""


@pytest.fixture
def own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, in whose folder the CDK's command line runs the app."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layover.toml").write_text(PROJECT)
    return tmp_path


def test_stage_of_a_project_has_the_settings_of_its_layover_toml(own_project: Path) -> None:
    prod = Settings.from_context({"stage": "prod"})
    assert (prod.stage, prod.origins) == ("prod", ("https://shop.example",))
    assert prod.tool_env == {"SHOP": "https://api.shop.example"}
    assert Settings.from_context({"stage": "prod", "retain": "false"}).retain is False
    assert Settings.from_context({}) == Settings()


@pytest.mark.parametrize(
    ("toml", "name"),
    [
        ("[stages.dev]", "layover"),
        ('name = "shop"\n[stages.dev]', "shop"),
        # As projects said it before they had a name.
        ('[stages.dev]\nname = "mine"', "mine"),
        ('name = "shop"\n[stages.dev]\nname = "mine"', "mine"),
    ],
)
def test_name_is_that_of_the_stage_or_of_the_project(
    toml: str, name: str, own_project: Path
) -> None:
    (own_project / "layover.toml").write_text(toml)
    assert Settings.from_context({}).prefix == f"{name}-dev"
    assert Settings.from_context({"name": "given"}).prefix == "given-dev"
    assert Settings.from_context({}, {"name": "of-code"}).name == name.replace("layover", "of-code")


def test_name_and_id_of_the_project_count_with_a_file_of_the_stage(own_project: Path) -> None:
    (own_project / "layover.toml").write_text('name = "shop"\nid = "0123456789ab"\n')
    (own_project / "infra" / "stages").mkdir(parents=True)
    (own_project / "infra" / "stages" / "dev.json").write_text('{"retain": false}')
    settings = Settings.from_context({})
    assert (settings.prefix, settings.project) == ("shop-dev", "0123456789ab")
    assert settings.retain is False


def test_settings_are_those_of_a_project_elsewhere(own_project: Path, tmp_path: Path) -> None:
    (own_project / "layover.toml").write_text('name = "shop"\n[stages.dev]\nretain = false')
    (own_project / "below").mkdir()
    with chdir(own_project / "below"):
        assert Settings.from_context({}).prefix == "layover-dev"
        assert Settings.from_context({}, root=own_project).prefix == "shop-dev"


def test_stage_that_the_project_does_not_list_is_refused(own_project: Path) -> None:
    with pytest.raises(
        ValueError, match=r"layover.toml has no \[stages.prdo\]: did you mean 'prod'"
    ):
        Settings.from_context({"stage": "prdo"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "retian = true",
            r"layover.toml: \[stages.dev\]: no setting 'retian': did you mean 'retain'",
        ),
        ("stage = 'prod'", r"\[stages.dev\]: stage cannot be given there: its heading names the"),
        ("stages = 'a'", r"\[stages.dev\]: stages cannot be given there"),
        ("daily_tokens = 0", "daily_tokens must be greater than or equal to 1, not 0"),
    ],
)
def test_wrong_setting_of_a_projects_stage_is_named_with_its_heading(
    own_project: Path, text: str, why: str
) -> None:
    (own_project / "layover.toml").write_text(f"[stages.dev]\n{text}\n")
    with pytest.raises(ValueError, match=why):
        Settings.from_context({})


def test_stage_with_settings_in_two_places_is_refused(own_project: Path) -> None:
    (own_project / "infra" / "stages").mkdir(parents=True)
    (own_project / "infra" / "stages" / "prod.json").write_text('{"retain": false}')
    (own_project / "infra" / "stages" / "test.json").write_text('{"retain": false}')
    assert Settings.from_context({"stage": "test"}).retain is False
    with pytest.raises(ValueError, match=r"prod.json both have settings of the stage: keep one"):
        Settings.from_context({"stage": "prod"})


def test_a_missing_folder_of_stages_is_fine_only_if_nobody_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.from_context({}).stage == "dev"


def test_key_of_a_provider_in_a_refused_setting_is_not_repeated(tmp_path: Path) -> None:
    address = '{"deep": {"base_url": "https://a.example", "api_key_env": "sk-secret"}}'
    with pytest.raises(ValueError, match="name an api_key_parameter") as error:
        said(kept(tmp_path, "dev", f'{{"providers": {address}}}'))
    assert "sk-secret" not in str(error.value)
    address = '{"deep": {"base_url": "https://a.example", "api_key": "sk-secret"}}'
    with pytest.raises(ValueError, match=r"providers\.deep: no option 'api_key': did you") as error:
        said(kept(tmp_path, "dev", f'{{"providers": {address}}}'))
    assert "sk-secret" not in str(error.value)


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
    ("text", "message"),
    [
        ('{"stage": "other"}', "has the settings of stage 'dev', and says stage 'other'"),
        ('{"alarm_email": "a@b"}', ": no setting 'alarm_email': did you mean 'alarms_email'?"),
        ("[]", "has to be a JSON object with the stage's settings, not a list"),
        ("{", "is not JSON"),
    ],
    ids=str,
)
def test_file_of_a_stage_that_makes_no_sense_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=rf"dev\.json ?{re.escape(message)}"):
        said(kept(tmp_path, "dev", text))


def test_command_line_gives_lists_with_commas() -> None:
    settings = said({"origins": "https://a.example, https://b.example", "retain": "false"})
    assert settings.origins == ("https://a.example", "https://b.example")
    assert settings.retain is False


def test_password_of_a_refused_proxy_is_not_repeated() -> None:
    proxy = "http://ann:secret@proxy.example:3128"
    with pytest.raises(ValueError, match="without a user and a password") as refused:
        said({**IN_A_VPC, "https_proxy": proxy})
    assert "secret" not in str(refused.value)


def test_tools_secret_is_where_ssm_takes_one() -> None:
    with pytest.raises(ValidationError, match="/aws"):
        Settings(tool_secrets={"KEY": "/aws/key"})


@pytest.mark.parametrize(
    "place",
    [
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop-*",
        "arn:aws:s3:::bucket",
    ],
)
def test_tools_secret_of_an_arn_that_iam_would_not_match_is_refused(place: str) -> None:
    with pytest.raises(ValidationError, match="six characters"):
        Settings(tool_secrets={"KEY": place})


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


@pytest.mark.parametrize("region", ["eu-central-2", "il-central-1", "ap-southeast-5"])
def test_region_that_may_not_stream_is_told_before_anything_is_made(region: str) -> None:
    said = streaming_caution(region)
    assert said is not None
    assert region in said
    assert "stream" in said


def test_region_that_streams_needs_no_caution() -> None:
    assert streaming_caution("eu-west-1") is None
    assert streaming_caution(None) is None


def test_caution_is_told_and_the_synthesis_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from infra.app import read_settings

    monkeypatch.setenv("CDK_DEFAULT_REGION", "eu-central-2")
    context = {"stages": NO_STAGES, "layer": "none"}
    app: Any = SimpleNamespace(node=SimpleNamespace(get_all_context=lambda: context))
    assert read_settings(app).stage == "dev"
    assert "eu-central-2" in capsys.readouterr().err


def test_app_refuses_such_a_region_before_it_makes_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The app here has a context and nothing else: whatever is made in it fails otherwise."""
    from infra.app import define

    monkeypatch.setenv("CDK_DEFAULT_REGION", "cn-north-1")
    app: Any = SimpleNamespace(node=SimpleNamespace(get_all_context=dict))
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
