"""`layover doctor --channels`: who is told of calls that wait, and a test message to each address."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from layover import Agent, Approval, tool
from layover.adapters.http.direct import DirectClient
from layover.declare.secret import Secret
from layover.desk.cli.channels import (
    VARIABLE,
    ChannelsDoctor,
    Finding,
    Rule,
    Source,
    report,
    rules_of,
    source_of,
    unknown_groups,
)
from layover.errors import ConfigurationError, RetryableError
from layover.plugins.people.channels.mail.twin import LocalSes
from layover.plugins.people.channels.slack.sender import SlackSender
from layover.plugins.people.channels.slack.twin import LOCAL_TOKEN, FakeSlack
from layover.plugins.people.channels.teams.twin import LocalTeams
from layover.plugins.people.channels.twins import Outbox
from layover.plugins.people.config import read_channels
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.project import Project, ProjectSettings
from layover.values.channels import Address, Channels, Notice, NoticeKind, NoticeLinks
from support.aws.loopback import KEYS
from support.commands import call
from support.services import served

PEOPLE = {
    "bea@example.com": {"id": "1", "groups": ["finance"]},
    "dan@example.com": {"id": "2", "groups": []},
}
RULES = (Rule("payouts", "pay", ("finance",), ("board",)),)


def channels(**fields: Any) -> Channels:
    """A document."""
    return read_channels({"mail_from": "approvals@example.com", **fields})


def examine(document: Channels, rules: Any = RULES, **secrets: str) -> list[Finding]:
    """What is wrong."""

    def read(name: str) -> str:
        if name not in secrets:
            raise ConfigurationError(f"{name} has no value: set the variable")
        return secrets[name]

    doctor = ChannelsDoctor(document, rules, read_secret=read)
    return [each for each in doctor.findings() if each.level != "ok"]


# What is wrong


def test_group_that_decides_and_is_told_of_nothing_is_a_warning() -> None:
    document = channels(finance=[{"mail": "all@example.com"}])
    [finding] = examine(document)
    assert (finding.level, finding.name) == ("warn", "board")
    assert "payouts.pay" in finding.text
    assert "nobody is told" in finding.text


def test_group_that_no_tool_names_is_a_warning() -> None:
    document = channels(
        finance=[{"mail": "a@example.com"}],
        board=[{"mail": "b@example.com"}],
        finanse=[{"mail": "c@example.com"}],
        owner=[{"mail": "@owner"}],
    )
    [finding] = examine(document)
    assert finding == Finding(
        "warn", "finanse", "has addresses, and no tool of these agents names it in `by`"
    )


def test_person_who_is_told_and_may_not_decide_is_a_warning() -> None:
    document = channels(finance=[{"mail": ["bea@example.com", "dan@example.com"]}], people=PEOPLE)
    [finding] = examine(document, rules=[Rule("payouts", "pay", ("finance",), ())])
    assert finding.name == "finance"
    assert finding.text.startswith("dan@example.com is told and may not decide")


def test_presses_in_slack_need_people_with_ids() -> None:
    tokens = {"SLACK_BOT_TOKEN": "xoxb", "SLACK_SIGNING_SECRET": "s"}
    rules = [Rule("payouts", "pay", ("finance",), ())]
    place = {"finance": [{"slack": "#payouts"}], "slack_team": {"team": "T1", "app": "A1"}}
    [finding] = examine(channels(**place, people=PEOPLE), rules, **tokens)
    assert "bea@example.com cannot decide in Slack" in finding.text
    [finding] = examine(channels(**place), rules, **tokens)
    assert "every press is refused" in finding.text


def test_document_that_leaves_open_whose_presses_count_is_a_warning() -> None:
    tokens = {"SLACK_BOT_TOKEN": "xoxb", "SLACK_SIGNING_SECRET": "s"}
    [finding] = examine(channels(owner=[{"slack": "@owner"}]), (), **tokens)
    assert (finding.level, finding.name) == ("warn", "slack")
    assert '`"slack_team": {"team": "T...", "app": "A..."}`' in finding.text
    assert examine(channels(owner=[{"mail": "@owner"}]), ()) == []


@pytest.mark.parametrize(
    ("team", "level"),
    [
        ({"team": "T0LOCAL", "app": "A0LOCAL"}, "ok"),
        ({"team": "T0OTHER", "app": "A0LOCAL"}, "FAIL"),
        ({"team": "T0LOCAL", "app": "A0OTHER"}, "FAIL"),
        (None, "ok"),
    ],
)
async def test_test_message_of_another_installation_fails_with_the_ids_that_are_true(
    team: Any, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = channels(finance=[{"slack": "#payouts"}], **({"slack_team": team} if team else {}))
    monkeypatch.setenv("SLACK_BOT_TOKEN", LOCAL_TOKEN)
    async with served(FakeSlack(Outbox()).respond) as url:
        sender = SlackSender(Secret("SLACK_BOT_TOKEN"), url, DirectClient, document)
        doctor = ChannelsDoctor(document, senders={"slack": sender})
        [finding] = await doctor.send(["finance"], "ann", "http://here")
        await sender.aclose()
    assert finding.level == level, finding.text
    if level == "FAIL":
        assert "the app A0LOCAL in the workspace T0LOCAL" in finding.text
        assert "xoxb" not in finding.text


def test_secret_that_is_missing_or_no_url_fails() -> None:
    document = channels(finance=[{"teams": "HOOK"}, {"slack": "#payouts"}])
    names = [f.name for f in examine(document, ()) if f.level == "FAIL"]
    assert names == ["SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "HOOK"]
    document = channels(finance=[{"teams": "HOOK"}])
    for url in ("http://teams.example.com/s3cret", "s3cret"):
        [finding] = [f for f in examine(document, (), HOOK=url) if f.level == "FAIL"]
        assert "https://" in finding.text
        assert "s3cret" not in finding.text


def test_document_that_is_well_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    document = channels(
        finance=[{"mail": "bea@example.com"}, {"teams": "HOOK"}],
        board=[{"mail": "board@example.com"}],
        people={"bea@example.com": PEOPLE["bea@example.com"]},
    )
    assert examine(document, HOOK="https://teams.example.com/1") == []
    doctor = ChannelsDoctor(document, RULES, read_secret=lambda _: "https://teams.example.com/1")
    assert report(doctor.findings()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "ok    channels: 2 groups, 1 person"
    assert "ok    finance: is told of calls of payouts.pay" in printed


def test_report_obeys_no_controls_and_fails_for_failures_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report([Finding("warn", "a", "\x1b[2Jb")]) == 0
    assert report([Finding("FAIL", "a", "b")]) == 1
    said = capsys.readouterr()
    assert said.out == "warn  a: ‹U+001B›[2Jb\n"
    assert said.err == "FAIL  a: b\n"


def test_unknown_group_is_named_with_the_nearest() -> None:
    document = channels(finance=[{"mail": "a@example.com"}])
    assert unknown_groups(document, ["finanse"]) == ("no group 'finanse': did you mean 'finance'?")
    assert unknown_groups(document, ["finance"]) is None


def test_rules_are_those_of_all_agents_behind_the_first() -> None:
    @tool(needs_approval=Approval(by=["finance"]))
    def pay() -> str:
        """Pay."""
        return ""

    @tool(needs_approval=True)
    def look() -> str:
        """Look."""
        return ""

    below = Agent("below", tools=[pay])
    above = Agent("above", tools=[look, below.as_tool("Pays.")])
    assert rules_of([above, below]) == [Rule("below", "pay", ("finance",), ())]


# The document's place


def project(stages: Mapping[str, Any]) -> Project:
    """A project with these stages."""
    return Project(Path("/nowhere"), ProjectSettings(stages=stages))


def test_no_document_says_where_it_would_be() -> None:
    assert VARIABLE in str(source_of(None, None, {}))
    assert "no stage 'prd': did you mean 'prod'" in str(
        source_of(project({"prod": {}}), "prd", {VARIABLE: "{}"})
    )
    assert "the stage prod has no `channels`" in str(
        source_of(project({"prod": {}}), "prod", {VARIABLE: "{}"})
    )


def test_document_of_a_stage_has_its_secrets_on_aws() -> None:
    stage = {"channels": {"finance": []}, "tool_secrets": {"HOOK": "/shop/hook"}}
    source = source_of(project({"prod": stage}), "prod", {VARIABLE: "[]"})
    assert source == Source(
        '{"finance": []}', "`channels` of the stage prod", {"HOOK": "/shop/hook"}
    )
    assert source_of(None, None, {VARIABLE: "{}"}) == Source("{}", VARIABLE)


# Tests


class Says:
    """A sender that answers so."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.notices: list[Notice] = []

    async def send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        """See `Sender`."""
        assert links.decide is None
        self.notices.append(notice)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def update(
        self, address: Address, reference: str, notice: Notice, links: NoticeLinks
    ) -> bool:
        """See `Sender`."""
        raise AssertionError


async def results(answer: str | Exception) -> list[Finding]:
    """What a test of two addresses prints."""
    document = channels(finance=[{"mail": ["a@example.com", "b@example.com"]}, {"teams": "HOOK"}])
    kinds = document.groups["finance"]
    doctor = ChannelsDoctor(document, senders={kinds[0].channel: Says(answer)})
    return await doctor.send(["finance"], "ada", "https://layover.example.com/")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ChannelRefused("SES refused: verify it"), "SES refused: verify it"),
        (ChannelBusy("too many", timedelta(seconds=7)), "again in 7 s"),
        (RetryableError("SES did not answer"), "look at the network"),
        (ConfigurationError("there are no AWS credentials: set AWS_PROFILE"), "AWS_PROFILE"),
    ],
)
async def test_each_address_says_what_to_do(answer: Exception, text: str) -> None:
    first, second, third = await results(answer)
    assert (first.level, first.name) == ("FAIL", "mail a@example.com")
    assert text in first.text
    assert second.level == "FAIL"
    assert third == Finding("FAIL", "teams HOOK", "nothing here sends to teams")


async def test_address_that_was_reached_says_by_which_message() -> None:
    assert (await results("m-1"))[0] == Finding("ok", "mail a@example.com", "sent as m-1")
    assert (await results(""))[1] == Finding("ok", "mail b@example.com", "sent")


async def test_owner_has_no_address_of_their_own() -> None:
    document = channels(owner=[{"mail": "@owner"}])
    assert await ChannelsDoctor(document).send(["owner"], "ada", "https://x.example/") == []


async def test_test_is_told_as_one() -> None:
    document = channels(finance=[{"mail": "a@example.com"}])
    sender = Says("")
    doctor = ChannelsDoctor(document, senders={document.groups["finance"][0].channel: sender})
    await doctor.send(["finance"], "ada", "https://x.example/")
    [notice] = sender.notices
    assert (notice.kind, notice.owner) == (NoticeKind.TEST, "ada")


AGENTS = '''"""Agents."""

from layover import Agent, Approval, tool


@tool(needs_approval=Approval(by=["finance"]))
def pay() -> str:
    """Pay."""
    return "paid"


payouts = Agent("payouts", tools=[pay])
'''


def unwanted() -> tuple[str, ...]:
    """Variables of this machine of which the command must know nothing."""
    return tuple(
        name
        for name in os.environ
        if name.lower().endswith("_proxy") or name.startswith(("AWS_", "LAYOVER_"))
    )


def made_project(folder: Path) -> None:
    (folder / "layover.toml").touch()
    (folder / "agents.py").write_text(AGENTS)


def called(folder: Path, *options: str) -> tuple[int, list[str], list[str]]:
    """Exit code, output and errors of the command in a project that has this `.env`."""
    made_project(folder)
    ended = call(folder, "doctor", *options, without=unwanted(), HOME=str(folder))
    return ended.returncode, ended.stdout.splitlines(), ended.stderr.splitlines()


async def run_doctor(folder: Path, *options: str) -> tuple[int | None, list[str], list[str]]:
    """The same, in a process of its own."""
    made_project(folder)
    usual = {n: v for n, v in os.environ.items() if n not in unwanted()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "layover.cli",
        "doctor",
        *options,
        cwd=folder,
        env={**usual, "HOME": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode().splitlines(), errors.decode().splitlines()


def test_command_says_what_is_missing(tmp_path: Path) -> None:
    code, output, errors = called(tmp_path, "--channels")
    assert (code, output) == (2, [])
    assert VARIABLE in errors[0]
    env = tmp_path / ".env"
    env.write_text(f"{VARIABLE}='{{'")
    code, _, errors = called(tmp_path, "--channels")
    assert code == 1
    assert errors[0].startswith(f"FAIL  {VARIABLE}: is not JSON")
    env.write_text(f"""{VARIABLE}='{{"finance": [{{"mail": "bea@example.com"}}]}}'""")
    code, _, errors = called(tmp_path, "--channels")
    assert code == 1
    assert "mail_from is missing" in errors[0]
    document = {"finance": [{"mail": "bea@example.com"}], "mail_from": "a@example.com"}
    env.write_text(f"{VARIABLE}='{json.dumps(document)}'")
    code, _, errors = called(tmp_path, "--send", "finanse")
    assert code == 2
    assert "did you mean 'finance'" in errors[0]
    code, _, errors = called(tmp_path, "--send", "finance")
    assert (code, errors) == (
        1,
        ["FAIL  AWS: AWS_REGION is not set: set the region of the deployment"],
    )


async def test_command_checks_a_project_and_sends(tmp_path: Path) -> None:
    document = {
        "finance": [{"mail": ["bea@example.com", "eve@elsewhere.example"]}, {"teams": "HOOK"}],
        "mail_from": "approvals@example.com",
        "people": {"bea@example.com": {"id": "1", "groups": ["finance"]}},
    }
    outbox = Outbox()
    ses = LocalSes(outbox, identities={"example.com"}, sandbox=True)
    async with served(ses.respond) as mail_url, served(LocalTeams(outbox).respond) as teams_url:
        variables = {
            f"{VARIABLE}": json.dumps(document),
            "HOOK": f"{teams_url}/s3cret",
            "AWS_ENDPOINT_URL_SESV2": mail_url,
            "AWS_REGION": "eu-central-1",
            **KEYS,
        }
        (tmp_path / ".env").write_text("".join(f"{n}='{v}'\n" for n, v in variables.items()))
        code, lines, failures = await run_doctor(tmp_path, "--send", "finance", "--user", "ada")
    assert lines == [
        "ok    channels: 1 group, 1 person",
        "ok    finance: is told of calls of payouts.pay",
        "ok    HOOK: is there",
        "ok    mail bea@example.com: sent as local-000001",
        "ok    teams HOOK: sent",
    ]
    [failure] = failures
    assert failure.startswith("FAIL  mail eve@elsewhere.example: SES refused a mail")
    assert "sandbox" in failure
    assert code == 1
    texts = [item["text"] for item in outbox.items]
    assert len(texts) == 2
    assert all("This is a test by ada; nothing waits." in text for text in texts)
