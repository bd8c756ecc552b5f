"""`layover doctor` compares releases: what is installed, pinned, in the data and deployed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError
from moto import mock_aws

from layover.desk.cli.client import ApiError
from layover.desk.cli.releases import PINS, Releases, pinned, releases
from layover.desk.local import newest_release
from layover.desk.shipped import release
from layover.project import FILE, Project, read
from support.aws.mocked import make_client


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / FILE).write_text("[dev]\ndata = 'kept'\n")
    return read(tmp_path)


def problem(**more: Any) -> str:
    with pytest.raises(ApiError) as raised:
        Releases("0.2.0", **more).check()
    assert raised.value.exit_code == 1
    return str(raised.value)


# What is wrong


def test_data_of_a_newer_release_is_told_with_what_to_install() -> None:
    told = problem(data="0.10.0", place=".layover")
    assert "0.10.0 has used the data in .layover, and 0.2.0 is installed" in told
    assert "pip install 'layover[local]==0.10.0'" in told
    assert "--data" in told


def test_deployment_of_a_newer_release_is_told_with_what_to_install() -> None:
    told = problem(deployed="0.3.0", stage="prod")
    assert "0.3.0 is deployed as prod, and 0.2.0 is installed" in told
    assert "pip install 'layover[local,cdk]==0.3.0'" in told


@pytest.mark.parametrize("pin", ["0.1.0", "0.3.0", "0.2.0rc1"])
def test_another_pin_than_the_installed_release_is_told(pin: str) -> None:
    told = problem(pinned=pin)
    assert f"{PINS} pins {pin}, and 0.2.0 is installed: pip install -r {PINS}" in told


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = problem(pinned="0.1.0", data="0.3.0", deployed="0.3.0", stage="dev")
    assert told.count("; ") == 2


# What is fine


def test_older_data_and_deployment_are_told_with_what_moves_them_on() -> None:
    told = Releases("0.2.0", "0.2.0", "0.1.0", "0.1.0", ".layover", "dev").check()
    assert told == (
        "0.2.0 is installed; requirements.txt pins it; the data in .layover is of 0.1.0, and the next "
        "`layover dev` moves it to this one; 0.1.0 is deployed as dev, and `layover deploy` brings this one"
    )


def test_where_there_is_nothing_else_only_the_installed_release_is_told() -> None:
    assert Releases("0.2.0").check() == "0.2.0 is installed"
    told = Releases("0.2.0", stage="prod").check()
    assert told.endswith("nothing that tells its release is deployed as prod")


# The pin


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (None, None),
        ("", None),
        ("layover\n", None),
        ("layover>=0.1\n", None),
        ("layover==0.*\n", None),
        ("layover-tools==7.0\n# layover==1.0\n", None),
        (b"\xff\xfe", None),
        (b"# caf\xe9\nlayover==0.1.0\n", None),
        ("layover==0.1.0\r\n".encode("utf-8-sig"), "0.1.0"),
        (b"\xfe\xff" + "httpx\nlayover==0.1.0\n".encode("utf-16-be"), "0.1.0"),
        ("layover[local,cdk]==0.1.0\n", "0.1.0"),
        ("requests==2.0\nLayover [local] == 0.2.0rc1 # why\n", "0.2.0rc1"),
        ("layover==0.1.0 ; python_version > '3.10'\n", "0.1.0"),
        ("layover[cdk]===0.1.0 \\\n    --hash=sha256:00\n", "0.1.0"),
    ],
)
def test_pin_is_read_as_pip_reads_it(
    tmp_path: Path, text: str | bytes | None, version: str | None
) -> None:
    if text is not None:
        (tmp_path / PINS).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert pinned(tmp_path) == version


# The data


def test_folder_keeps_the_newest_release_and_an_older_one_warns(tmp_path: Path) -> None:
    (tmp_path / "release").write_text("99.0.0\n")
    warning = newest_release.note(tmp_path)
    assert warning is not None
    assert f"release 99.0.0 has used this data, and {release()} may not know" in warning
    assert newest_release.read(tmp_path) == "99.0.0"


@pytest.mark.parametrize("before", [None, b"", b"0.0.9\n", b"\xff"])
def test_folder_of_an_older_release_becomes_one_of_this(
    tmp_path: Path, before: bytes | None
) -> None:
    if before is not None:
        (tmp_path / "release").write_bytes(before)
    assert newest_release.note(tmp_path) is None
    assert newest_release.read(tmp_path) == release()


def test_folder_that_is_not_there_has_no_release(tmp_path: Path) -> None:
    assert newest_release.note(tmp_path / "away") is None
    assert newest_release.read(tmp_path / "away") is None


# All of them


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        yield make_client


def test_project_without_pin_and_data_has_only_the_installed_release(project: Project) -> None:
    assert releases(project, None) == Releases(release(), place="kept")


def test_releases_are_those_of_the_project(project: Project, client: Any) -> None:
    (project.root / PINS).write_text("layover[local]==0.0.7\n")
    (project.root / "kept").mkdir()
    (project.root / "kept" / "release").write_text("0.0.8\n")
    machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:layover-dev-run"
    template = {
        "Resources": {"T": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {
            "AgentsStateMachineArn": {"Value": machine},
            "AgentsRelease": {"Value": "0.0.9"},
        },
    }
    client("cloudformation").create_stack(StackName="shop", TemplateBody=json.dumps(template))
    assert releases(project, "dev", client) == Releases(
        release(), "0.0.7", "0.0.8", "0.0.9", "kept", "dev"
    )


def test_stage_that_is_not_deployed_has_no_release(client: Any) -> None:
    assert releases(None, "prod", client) == Releases(release(), stage="prod")


def test_account_that_cannot_be_looked_into_is_told(project: Project) -> None:
    def refuse(_: str) -> Any:
        raise NoCredentialsError

    with pytest.raises(ApiError, match="what is deployed as dev was not looked at: Unable to loc"):
        releases(project, "dev", refuse)
    with pytest.raises(ApiError) as raised:
        releases(project, "no stage", refuse)
    assert raised.value.exit_code == 2
