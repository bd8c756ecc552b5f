"""What `layover doctor --stage prod` says of a stage before people depend on it."""

import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from layover.desk.cdk.settings import Settings
from layover.desk.cli import readiness
from layover.desk.cli.readiness import PENDING, checks, mail_check

PAGE = Path(__file__).parents[4] / "docs" / "deploy" / "before-production.md"
MAIL = "ops@example.com"
READY: dict[str, Any] = {
    "size": "production",
    "alarms_email": MAIL,
    "budget_usd": 500,
    "daily_cost_usd": "5",
    "mfa": "required",
}


class Sns:
    """SNS with these subscriptions of an address."""

    def __init__(self, *arns: str, to: str = MAIL) -> None:
        self.pages = [{"Subscriptions": [{"Endpoint": to, "SubscriptionArn": arn}]} for arn in arns]

    def get_paginator(self, _: str) -> "Sns":
        return self

    def paginate(self) -> list[dict[str, Any]]:
        return self.pages


def lacking(**settings: Any) -> set[str]:
    found = checks(Settings.of(settings), has_address=lambda _: True)
    return {each.name for each in found if each.todo}


def test_stage_with_the_defaults_lacks_all_but_what_they_protect() -> None:
    assert lacking(stage="prod") == {
        *("zones", "awake", "reader", "versions", "key", "alarms", "budget"),
        *("spending", "rate", "second factor"),
    }


def test_size_does_not_choose_what_only_the_deployer_knows() -> None:
    assert lacking(size="production", alarms_email=MAIL) == {"budget", "spending", "second factor"}
    assert lacking(**READY) == set()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"nat": "instance"}, "zones"),
        ({"nat_gateways": 1}, "zones"),
        ({"database_min_acu": 0}, "awake"),
        ({"database_readers": 0}, "reader"),
        ({"bucket_versions_days": None}, "versions"),
        ({"own_key": False}, "key"),
        ({"retain": False}, "protection"),
        ({"protection": False}, "protection"),
        ({"alarms": False}, "alarms"),
        ({"budget_usd": None}, "budget"),
        ({"daily_cost_usd": None}, "spending"),
        ({"runs_per_minute": None}, "rate"),
        ({"api_concurrency": 0}, "concurrency"),
        ({"mfa": "off"}, "second factor"),
        ({"trace_content": True}, "content"),
        ({"log_level": "DEBUG"}, "content"),
    ],
    ids=str,
)
def test_choice_that_takes_something_away_is_named_with_its_setting(
    given: dict[str, Any], name: str
) -> None:
    assert lacking(**{**READY, **given}) == {name}
    (check,) = (
        each for each in checks(Settings.of({**READY, **given}), lambda _: True) if each.todo
    )
    assert any(setting in check.todo for setting in given) or name == "zones"


def test_own_provider_decides_about_second_factors() -> None:
    given = {k: v for k, v in READY.items() if k != "mfa"}
    assert lacking(**given, issuer="https://id.example", audience="a") == set()


def test_hosts_without_ipv6_are_named_where_nothing_else_leads_out() -> None:
    settings = Settings.of({**READY, "nat": "ipv6"})
    found = {each.name: each for each in checks(settings, has_address=lambda _: False)}
    assert "api.openai.com" in found["way out"].todo
    assert found["zones"].todo == ""


@pytest.mark.parametrize(
    ("sns", "todo"),
    [
        (Sns(), f"no alarm goes to {MAIL} yet"),
        (Sns("arn:of:another", to="b@example.com"), f"no alarm goes to {MAIL} yet"),
        (Sns(PENDING), "has not confirmed"),
        (Sns("arn:of:one", PENDING), "has not confirmed"),
        (Sns("arn:of:one"), ""),
    ],
)
def test_address_that_has_not_confirmed_gets_no_alarm(sns: Sns, todo: str) -> None:
    check = mail_check(MAIL, sns)
    assert todo in check.todo
    assert bool(check.todo) == bool(todo)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a stage that people depend on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layover.toml").write_text('[stages.prod]\n[stages.dev]\n[stages.odd]\nsize = "x"')
    return tmp_path


def unreachable(_: str) -> Any:
    raise NoCredentialsError


def test_stage_that_lacks_something_fails_and_leads_to_the_page(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readiness.main(None, "prod", unreachable) == 1
    told = capsys.readouterr()
    assert "FAIL  reader: " in told.err
    assert re.search(r"prod lacks 10 of 13: .*before-production\.md", told.err)
    assert "ok    protection: " in told.out


def test_stage_on_which_nobody_depends_is_left_in_peace(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readiness.main(None, "dev", unreachable) == 0
    assert capsys.readouterr() == ("", "")


def test_settings_that_cannot_be_read_fail_in_a_sentence(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readiness.main(None, "odd", unreachable) == 1
    assert "FAIL  settings of odd: size" in capsys.readouterr().err


def test_stage_that_has_all_passes_without_credentials(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in READY.items()]
    (project / "layover.toml").write_text("\n".join(["[stages.prod]", *lines]))
    assert readiness.main(None, "prod", unreachable) == 0
    assert "skip  mail: not looked at: NoCredentialsError" in capsys.readouterr().err


def test_page_has_each_check() -> None:
    text = PAGE.read_text("utf-8").split('<a id="checks"></a>')[1].split("\n## ")[1]
    named = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    settings = Settings.of({"nat": "ipv6"})
    assert named == [*(each.name for each in checks(settings, lambda _: True)), "mail"]
