"""The way back to what was deployed before: all aliases, or none."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from layover.desk.cdk.rollback import (
    PUBLISHED,
    Deployment,
    NoWayBack,
    choose,
    current,
    deployments,
    listing,
    move,
)
from layover.desk.cdk.settings import Settings
from layover.desk.cli.ops.rollback import rollback
from layover.project import DeploySettings, Project, ProjectSettings
from support.commands import call

STAGE = Settings(stage="prod")


class Missing(Exception):
    """Lambda's ResourceNotFoundException."""


class Lambda:
    """Functions, versions and aliases, as boto3 tells of them. moto's Lambda needs Docker."""

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(ResourceNotFoundException=Missing)
        self.versions: dict[str, list[dict[str, str]]] = {}
        self.aliases: dict[str, str] = {}
        self.broken: set[str] = set()
        """Functions whose aliases cannot be moved."""

    def deploy(self, digest: str, day: int, *names: str, release: str = "0.2.0") -> None:
        """Publish functions, and move their aliases."""
        for name in names or PUBLISHED:
            function = f"layover-prod-{name}"
            every = self.versions.setdefault(function, [])
            number = str(len(every) + 1)
            when = f"2026-11-{day:02}T10:00:00.000+0000"
            what = f"Layover {release} ({digest})"
            every.append({"Version": number, "Description": what, "LastModified": when})
            self.aliases[function] = number

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_versions_by_function"

        def pages(FunctionName: str) -> Iterator[Mapping[str, Any]]:
            yield {"Versions": [{"Version": "$LATEST", "Description": "Layover: turn"}]}
            for version in self.versions[FunctionName]:
                yield {"Versions": [version]}

        return SimpleNamespace(paginate=pages)

    def get_alias(self, FunctionName: str, Name: str) -> Mapping[str, str]:
        if FunctionName not in self.aliases:
            raise Missing(FunctionName)
        assert Name == "live"
        return {"FunctionVersion": self.aliases[FunctionName]}

    def update_alias(self, FunctionName: str, Name: str, FunctionVersion: str) -> None:
        if FunctionName in self.broken:
            raise RuntimeError(f"{FunctionName} is being updated")
        self.aliases[FunctionName] = FunctionVersion


@pytest.fixture
def client() -> Lambda:
    """Three deployments, the last of which is live."""
    client = Lambda()
    for day, digest in enumerate(("aaa", "bbb", "ccc"), 1):
        client.deploy(digest, day)
    return client


def to(client: Lambda, where: str) -> Deployment:
    return choose(deployments(STAGE, client), current(STAGE, client), where)


def test_stage_without_aliases_has_no_way_back() -> None:
    with pytest.raises(NoWayBack, match=r"layover-prod has no aliases: .* Check the stage"):
        current(STAGE, Lambda())


def test_first_deployment_has_nothing_before_it() -> None:
    client = Lambda()
    client.deploy("aaa", 1)
    with pytest.raises(NoWayBack, match="nothing before the current deployment"):
        to(client, "previous")


@pytest.mark.parametrize("digest", ["ddd", ""])
def test_deployment_that_is_none_or_several_is_not_guessed(client: Lambda, digest: str) -> None:
    with pytest.raises(NoWayBack, match="choose from ccc, bbb, aaa"):
        to(client, digest)


def test_deployment_of_which_a_function_is_gone_is_no_target(client: Lambda) -> None:
    del client.versions["layover-prod-turn"][1]
    assert [each.digest for each in deployments(STAGE, client)] == ["ccc", "aaa"]


def test_half_moved_aliases_are_not_guessed_from(client: Lambda) -> None:
    client.aliases["layover-prod-turn"] = "1"
    with pytest.raises(NoWayBack, match="lead to different deployments: name one with --to"):
        to(client, "previous")


def test_alias_that_cannot_be_moved_leaves_all_where_they_were(client: Lambda) -> None:
    client.broken.add(f"layover-prod-{PUBLISHED[-1]}")
    before = dict(client.aliases)
    with pytest.raises(RuntimeError, match="is being updated"):
        move(STAGE, client, to(client, "previous"), current(STAGE, client))
    assert client.aliases == before


def test_versions_that_are_not_layovers_are_passed_over(client: Lambda) -> None:
    for every in client.versions.values():
        every.append(
            {"Version": "9", "Description": "", "LastModified": "2026-11-20T10:00:00.000+0000"}
        )
    assert len(deployments(STAGE, client)) == 3


def test_all_aliases_go_back_together(client: Lambda) -> None:
    move(STAGE, client, to(client, "previous"), current(STAGE, client))
    assert client.aliases == {f"layover-prod-{name}": "2" for name in PUBLISHED}
    move(STAGE, client, to(client, "previous"), current(STAGE, client))
    assert set(client.aliases.values()) == {"1"}
    move(STAGE, client, to(client, "cc"), current(STAGE, client))
    assert set(client.aliases.values()) == {"3"}


def test_same_code_that_was_deployed_again_is_its_last_publication(client: Lambda) -> None:
    client.deploy("aaa", 4)
    (newest, *_) = deployments(STAGE, client)
    assert (newest.digest, {*newest.versions.values()}) == ("aaa", {"4"})


def test_list_marks_what_is_live(client: Lambda) -> None:
    lines = [*listing(deployments(STAGE, client), current(STAGE, client))]
    assert lines == [
        "* ccc  2026-11-03 10:00  Layover 0.2.0",
        "  bbb  2026-11-02 10:00  Layover 0.2.0",
        "  aaa  2026-11-01 10:00  Layover 0.2.0",
    ]


PROD = DeploySettings(stage="prod")


def command(client: Lambda, to: str | None, project: Project | None = None) -> int:
    return rollback(project, PROD, to, lambda _: client)


def test_stage_that_the_project_does_not_list_ends_it_before_anything_is_asked(
    client: Lambda, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, ProjectSettings(stages={"dev": {}, "production": {}}))
    assert command(client, "previous", project) == 2
    assert "prod" in capsys.readouterr().err
    assert set(client.aliases.values()) == {"3"}


def test_command_without_a_way_back_says_why(
    client: Lambda, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(client, "ddd") == 1
    assert "choose from ccc, bbb, aaa" in capsys.readouterr().err


def test_command_lists_and_goes_back(client: Lambda, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(client, None) == 0
    assert capsys.readouterr().out.startswith("* ccc")
    assert command(client, "previous") == 0
    assert "* bbb  2026-11-02 10:00  Layover 0.2.0\n" in capsys.readouterr().out
    assert set(client.aliases.values()) == {"2"}


def test_command_reads_where_the_project_is_deployed(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").write_text(
        '[deploy]\nstage = "prod"\nprofile = "no-such-profile"\n'
    )
    told = call(tmp_path, "ops", "rollback")
    assert (told.returncode, told.stdout) == (1, "")
    assert "no-such-profile" in told.stderr
