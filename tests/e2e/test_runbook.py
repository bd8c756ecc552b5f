"""The ten incidents of docs/deploy/runbook.md: each happens to a system on one machine, and is ended by the
page's commands. What they ask of AWS, moto answers, or the twin of a service."""

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psutil
import pytest
import typer.main
from moto import mock_aws

from layover.desk.cdk.rollback import ALIAS, PUBLISHED, current
from layover.desk.cdk.settings import Settings
from layover.desk.cli import main as cli
from layover.desk.cli.deploy.request import request_of
from layover.desk.cli.deploy.run import main as deploy
from layover.desk.cli.tokens import TokenFile, Tokens
from layover.plugins.people.channels.mail.twin import LocalSes
from layover.plugins.people.channels.twins import Outbox
from layover.project import read
from support.aws.command_line import read_line
from support.aws.loopback import KEYS
from support.aws.mocked import REGION, make_client
from support.commands import call as run_command
from support.providers.openai import FakeOpenAI, Reply, call, fail, say
from support.runbook import BEGIN, Incident, read_incidents
from support.services import served
from support.system.folders import folder
from support.system.system import LAYOVER, Brain, Caller, System, eventually, unique
from unit.desk.cli.test_deploy import FakeMachine, Recorder

OPERATOR = "olga"
HOUR_S = 3_600
CHANNELS = {
    "operators": [{"mail": "ops@example.com"}],
    "finance": [{"mail": "bea@elsewhere.example"}],
    "mail_from": "approvals@example.com",
}
PROJECT = f"""
[deploy]
region = "{REGION}"

[stages.prod.channels]
operators = [{{ mail = "ops@example.com" }}]
finance = [{{ mail = "bea@elsewhere.example" }}]
mail_from = "approvals@example.com"
"""
AGENTS = '''"""Agents."""

from layover import Agent, Approval, tool


@tool(needs_approval=Approval(by=["finance"]))
def pay() -> str:
    """Pay."""
    return "paid"


payouts = Agent("payouts", tools=[pay])
'''


@dataclass
class OnCall:
    """Whoever is on call: a project's folder, a sign-in as an operator, and the page."""

    system: System
    brain: Brain
    folder: Path
    incident: Incident = field(init=False)
    key: str = "sk-new"

    def __post_init__(self) -> None:
        (self.folder / "layover.toml").write_text(PROJECT)
        (self.folder / "agents.py").write_text(AGENTS)
        (self.folder / "infra").mkdir()
        (self.folder / "infra" / "app.py").touch()
        token = f"dev:{OPERATOR};scopes=operate,read-content,audit"
        signed_in = Tokens(token, None, time.time() + HOUR_S, "https://id.example", "people")
        TokenFile(self.folder / "layover").save(self.system.url, signed_in)

    @property
    def variables(self) -> dict[str, str]:
        """Of the terminal."""
        home = str(self.folder)
        return {"HOME": home, "XDG_CONFIG_HOME": home, "NO_PROXY": "*", "OPENAI_API_KEY": self.key}

    @property
    def operator(self) -> Caller:
        """The same person, at the API."""
        return self.system.caller(f"{OPERATOR};scopes=operate")

    def sees(self, text: str) -> str:
        """What the page says is seen."""
        return self.incident.word(text)

    def types(self, beginning: str, **places: str) -> str:
        """What a command of the page prints, which has to work. Whatever it asks is answered with yes."""
        _, *words = self.incident.typed(f"layover {beginning}", **places)
        unwanted = tuple(n for n in os.environ if n.startswith("LAYOVER_"))
        ended = run_command(self.folder, *words, without=unwanted, typed="y\n", **self.variables)
        assert ended.returncode == 0, ended
        return ended.stdout

    def begins(self, beginning: str, **variables: str) -> subprocess.Popen[str]:
        """A command of the page in a process."""
        _, *words = self.incident.typed(f"layover {beginning}")
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "LAYOVER_"))}
        return subprocess.Popen(
            [LAYOVER, *words],
            cwd=self.folder,
            env={**kept, **self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def asks_aws(self, beginning: str, **places: str) -> Any:
        """What the account answers to a command of the page."""
        _, *words = self.incident.typed(f"aws {beginning}", **places)
        asked = read_line([self.key if each == "$OPENAI_API_KEY" else each for each in words])
        return getattr(make_client(asked.service), asked.operation)(**asked.parameters)

    def deploys(self, beginning: str) -> list[str]:
        """The CDK's command of a command of the page that deploys, whose settings a stage takes."""
        _, name, *words = self.incident.typed(f"layover {beginning}")
        command: Any = typer.main.get_command(cli.app)
        options = command.commands[name].make_context(name, words).params
        more = {"more": options["args"], "yes": True}
        wishes = {each: options[each] for each in ("stage", "context", "profile", "region")}
        request = request_of("deploy", read(self.folder), **wishes, **more)
        run = Recorder()
        assert deploy(request, FakeMachine(packages=("aws_cdk", "pip")), run, lambda _: "") == 0
        settings = dict(each.split("=") for each in ("stage=prod", *request.context))
        Settings.from_context(settings, root=self.folder)
        return run.commands[-1]

    def follows(self, beginning: str, until: Callable[[str], bool]) -> list[str]:
        """The lines of a command of the page that goes on until it is interrupted, up to one."""
        with self.begins(beginning) as following:
            assert following.stdout is not None
            lines: list[str] = []
            try:
                for line in following.stdout:
                    lines.append(line)
                    if until(line):
                        return lines
            finally:
                following.send_signal(signal.SIGINT)
        raise AssertionError(f"it ended: {lines}")

    def starts(self, user: Caller, error: Reply) -> "Broken":
        """A run whose provider answers with this error."""
        broken = Broken(error)
        text = self.brain.mind(lambda _: broken.answer, f"please {unique()}")
        broken.id = user.start(user.thread(), text)["id"]
        return broken

    def fails(self, user: Caller, error: Reply) -> "Broken":
        """The same, once it has failed."""
        broken = self.starts(user, error)
        run = user.over(broken.id)
        assert run["status"] == "failed"
        broken.type = run["error"]["type"]
        return broken


@dataclass
class Broken:
    """A run, and what its provider answers. `type`: that of its error."""

    answer: Reply
    id: str = ""
    type: str = ""

    def mend(self) -> None:
        """The provider answers again."""
        self.answer = say("It works again.")


@pytest.fixture(scope="module")
def minds() -> Iterator[Brain]:
    """A provider that answers whatever no test plans."""
    with FakeOpenAI() as provider:
        brain = Brain(provider)
        brain.brief("", say("Well."))
        yield brain


@pytest.fixture(scope="module")
def running(minds: Brain) -> Iterator[System]:
    """The system of all incidents."""
    variables = {
        "LAYOVER_CHANNELS": json.dumps(CHANNELS),
        "LAYOVER_CONTEXT_WINDOWS": '{"fake-1": 128000}',
        "LAYOVER_DAILY_COST_USD": "1000",
    }
    with folder("runbook") as data, System(data, minds, variables=variables) as system:
        yield system


@pytest.fixture(scope="module")
def person(running: System, minds: Brain, tmp_path_factory: pytest.TempPathFactory) -> OnCall:
    """Whoever is on call for all of them."""
    return OnCall(running, minds, tmp_path_factory.mktemp("desk"))


@pytest.fixture
def desk(person: OnCall, request: pytest.FixtureRequest) -> Iterator[OnCall]:
    """The same, at one incident. All of its commands are typed in the end."""
    person.incident = read_incidents()[request.param]
    yield person
    person.operator.want(200, "DELETE", "/operate/switch")
    assert person.incident.unplayed == []


@pytest.fixture
def user(running: System) -> Caller:
    """A user of this incident."""
    return running.caller()


@pytest.fixture
def account() -> Iterator[None]:
    """An account at AWS."""
    with mock_aws(config={"lambda": {"use_docker": False}}):
        yield


def at(name: str) -> pytest.MarkDecorator:
    """The test plays this incident."""
    return pytest.mark.parametrize("desk", [name], indirect=True)


@at(BEGIN)
def test_whoever_is_on_call_sees_how_it_stands_and_stops_everything(
    desk: OnCall, user: Caller
) -> None:
    assert "runs that are not over" in desk.types("ops summary")
    assert desk.types("ops limits").startswith("nothing is stopped\n")
    failed = desk.fails(user, fail(400))
    desk.follows("ops tail --failed", lambda line: failed.id in line)
    assert f"by {OPERATOR}: looking into wrong refunds" in desk.types("ops stop")
    refused(user)
    assert desk.types("ops start") == "nothing is stopped\n"
    begins(user)


def begun(user: Caller) -> int:
    """The status of a request for a run."""
    return user.call("POST", f"/threads/{user.thread()}/runs", {"input": "hello"}).status


def refused(user: Caller) -> None:
    """No run begins, within the five seconds in which the switch is seen."""
    eventually(lambda: begun(user), lambda status: status == 503, every=0.3)


def begins(user: Caller) -> None:
    """Runs begin again."""
    eventually(lambda: begun(user), lambda status: status == 202, every=0.3)


@at("provider-away")
def test_runs_of_an_outage_wait_and_those_that_it_has_ended_go_on(
    desk: OnCall, user: Caller
) -> None:
    failed = desk.starts(user, fail(503, "overloaded", retry_after="1200"))
    waits = re.compile(f"running +{failed.id} .*, waits for openai until")
    desk.follows("ops tail", lambda line: bool(waits.search(line)))
    # Its patience ends. Step Functions' timer is real here: an operator's redrive stands for it, and a fresh
    # process for one that asks again.
    desk.system.advance_clock(HOUR_S)
    desk.system.kill("turn")
    desk.operator.want(200, "POST", "/operate/runs/redrive", {"ids": [failed.id]})
    assert user.over(failed.id)["error"]["type"] == desk.sees("ProviderAway")
    told = eventually(lambda: [m for m in desk.system.outbox() if "ProviderAway" in m["text"]])
    assert [(m["to"], "openai" in m["text"]) for m in told] == [("ops@example.com", True)]
    assert failed.id in desk.types("ops runs --error ProviderAway")
    assert "ProviderAway of openai" in desk.types("ops summary")
    failed.mend()
    desk.system.advance_clock(61)
    desk.system.kill("turn")
    assert f"{failed.id}: a fresh execution" in desk.types("ops redrive --error ProviderAway")
    assert user.over(failed.id)["status"] == "success"
    assert "ProviderAway" not in desk.types("ops summary")
    assert failed.id not in desk.types("ops runs --status failed")


@at("key-wrong")
def test_runs_that_a_refused_key_has_failed_go_on_with_the_new_one(
    desk: OnCall, user: Caller, account: None
) -> None:
    failed = desk.fails(user, fail(401, "Incorrect API key provided"))
    assert failed.type == desk.sees("AuthenticationError")
    assert "everything is stopped" in desk.types("ops stop")
    desk.asks_aws("ssm put-parameter")
    name = Settings(stage="prod").key_parameter
    kept = make_client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    assert (kept["Value"], kept["Type"]) == (desk.key, "SecureString")
    command = desk.deploys("deploy")
    assert command[command.index("revision=new-key") - 1] == "-c"
    failed.mend()
    desk.types("ops start")
    desk.types("ops redrive --error AuthenticationError")
    assert user.over(failed.id)["status"] == "success"
    begins(user)
    told = desk.types("doctor")
    assert "ok    run: " in told
    assert "answered with" in told


@at("quota")
def test_runs_that_a_used_up_quota_has_failed_go_on(desk: OnCall, user: Caller) -> None:
    words = "You exceeded your current quota"
    failed = desk.fails(user, fail(429, words, code="insufficient_quota"))
    summary = desk.types("ops summary")
    assert f"{desk.sees('RateLimitError')} of openai, for example {failed.id}" in summary
    assert f"{desk.sees('spent')} today: " in summary
    assert words in desk.types("ops show", RUN_ID=failed.id)
    assert failed.id in desk.types("ops runs --error RateLimitError")
    failed.mend()
    desk.types("ops redrive --error RateLimitError")
    assert user.over(failed.id)["status"] == desk.sees("success")


@at("database")
def test_database_that_does_not_answer_is_named_and_the_doctor_finds_it_awake(
    desk: OnCall, user: Caller
) -> None:
    thread = user.thread()
    user.ask(thread, desk.brain.plan(say("one")))
    # No connection outlives a database that falls asleep.
    desk.system.kill("api")
    with asleep(desk.system.folder / "data" / "postgres"):
        refused = user.call("GET", f"/threads/{thread}/messages")
        assert (refused.status, refused.body["type"][-7:]) == (503, "-waking")
        assert int(refused.headers[desk.sees("Retry-After")]) > 0
    eventually(lambda: user.call("GET", f"/threads/{thread}/messages").status == 200)
    command = desk.deploys("deploy")
    assert command[command.index("database_max_acu=32") - 1] == "-c"
    assert desk.sees("database: answers after 0 s") in desk.types("doctor")


@contextmanager
def asleep(data: Path) -> Iterator[None]:
    """The server of this data does not answer meanwhile."""
    server = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
    family = [server, *server.children()]
    for each in family:
        each.suspend()
    try:
        yield
    finally:
        for each in family:
            each.resume()


@at("channel")
async def test_address_that_is_refused_is_named_and_a_test_arrives_once_it_is_mended(
    desk: OnCall, user: Caller
) -> None:
    bea = desk.system.caller("bea;groups=finance")
    text = desk.brain.plan(call("pay_by_others", amount=12.5), say("done"))
    run = user.ask(user.thread("treasurer"), text)
    assert run["id"] in desk.types("ops runs --status suspended")
    outbox, codes = Outbox(), []
    for verified in ({"example.com"}, {"example.com", "elsewhere.example"}):
        ses = LocalSes(outbox, identities=verified, sandbox=True)
        async with served(ses.respond) as url:
            variables = {"AWS_ENDPOINT_URL_SESV2": url, "AWS_REGION": REGION, **KEYS}
            with desk.begins("doctor --channels", **variables) as doctor:
                _, failures = await asyncio.to_thread(doctor.communicate)
        codes.append(doctor.returncode)
        if doctor.returncode:
            assert desk.sees("sandbox") in failures
    assert (codes, len(outbox.items)) == ([1, 0], 1)
    desk.sees("GET /approvals?as=approver")
    [waiting] = [
        each for each in bea.get("/approvals?as=approver")["items"] if each["run_id"] == run["id"]
    ]
    bea.decide(run["id"], waiting["tool_call_id"], "approve")
    user.over(run["id"])
    assert desk.types("ops runs --status suspended") == "no such runs\n"


@at("hangs")
def test_run_that_hangs_goes_on_after_a_redrive_and_what_waits_is_denied_or_ended(
    desk: OnCall, user: Caller
) -> None:
    key = unique()
    text = desk.brain.plan(call("slow", key=key), say("told of the doubt"))
    run = user.start(user.thread(), text)
    eventually(lambda: desk.system.ledger(key))
    shown = desk.types("ops show", RUN_ID=run["id"])
    assert "slow: open" in shown
    assert "step 2" not in shown
    desk.types("ops redrive", RUN_ID=run["id"])
    # The function is stopped.
    desk.system.kill("turn")
    assert user.over(run["id"])["text"] == "told of the doubt"
    assert "step 2" in desk.types("ops show", RUN_ID=run["id"])
    for what, ended in (("deny", "success"), ("cancel", "cancelled")):
        text = desk.brain.plan(call("refund", order_id=unique(), amount=1), say("not paid"))
        waiting = user.suspended(user.start(user.thread(), text)["id"])
        desk.types(f"ops {what}", RUN_ID=waiting["id"], WHY="nobody knows the order")
        assert user.over(waiting["id"])["status"] == ended


@at("bad-release")
def test_release_before_is_back_and_what_the_bad_one_failed_is_found(
    desk: OnCall, user: Caller, account: None
) -> None:
    functions, settings = make_client("lambda"), Settings(stage="prod")
    publish(functions, settings, "aaa", "bbb")
    failed = desk.fails(user, fail(400, "no such tool"))
    assert desk.types("ops rollback --stage prod").startswith("* bbb")
    assert "\n* aaa" in desk.types("ops rollback --stage prod --to previous")
    assert {*current(settings, functions).values()} == {"1"}
    listed = desk.types("ops runs --status failed --agent support")
    assert failed.id in listed
    lines = desk.follows("ops tail --failed", lambda line: failed.id in line)
    assert all(" failed " in line for line in lines)


def publish(functions: Any, settings: Settings, *digests: str) -> None:
    """Deploy these, one after the other."""
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("handler.py", "")
    document = {"RoleName": "functions", "AssumeRolePolicyDocument": "{}"}
    role = make_client("iam").create_role(**document)["Role"]["Arn"]
    for name in (f"{settings.prefix}-{each}" for each in PUBLISHED):
        code = {"Code": {"ZipFile": archive.getvalue()}, "Handler": "handler.main", "Role": role}
        functions.create_function(FunctionName=name, Runtime="python3.13", **code)
        for size, digest in enumerate(digests, 256):
            functions.update_function_configuration(FunctionName=name, MemorySize=size)
            what = f"Layover 0.2.0 ({digest})"
            version = functions.publish_version(FunctionName=name, Description=what)["Version"]
        functions.create_alias(FunctionName=name, Name=ALIAS, FunctionVersion=version)


@dataclass
class Pool:
    """Cognito's users of the stage: one of them, with a mail address."""

    id: str
    sub: str

    @classmethod
    def make(cls) -> "Pool":
        """A pool with ann@example.com."""
        users = make_client("cognito-idp")
        wishes = {"PoolName": "people", "UsernameAttributes": ["email"]}
        pool = users.create_user_pool(**wishes)["UserPool"]["Id"]
        mail = "ann@example.com"
        attributes = [{"Name": "email", "Value": mail}]
        made = users.admin_create_user(UserPoolId=pool, Username=mail, UserAttributes=attributes)
        facts = {each["Name"]: each["Value"] for each in made["User"]["Attributes"]}
        return cls(pool, facts["sub"])


@at("leaked-token")
def test_person_is_kept_out_and_what_was_done_with_the_token_is_listed(
    desk: OnCall, account: None
) -> None:
    pool = Pool.make()
    thief = desk.system.caller(f"{pool.sub};scopes=operate")
    run = thief.ask(thief.thread(), desk.brain.plan(say("Here is everything.")))
    thief.call("POST", "/operate/runs/cancel", {"ids": [run["id"]], "reason": "because"})
    assert "leaked token" in desk.types("ops stop")
    desk.asks_aws("cognito-idp admin-user-global-sign-out", POOL=pool.id, USER="ann@example.com")
    desk.asks_aws("cognito-idp admin-disable-user", POOL=pool.id, USER="ann@example.com")
    left = make_client("cognito-idp").admin_get_user(UserPoolId=pool.id, Username=pool.sub)
    assert not left["Enabled"]
    rows = desk.types("ops audit --operations", SUB=pool.sub)
    assert f"cancel by {pool.sub}: refused" in rows
    assert run["id"] in desk.types("ops runs --owner", SUB=pool.sub)
    desk.operator.want(200, "DELETE", "/operate/switch")
    stranger = desk.system.caller("-")
    assert stranger.call("GET", "/threads", authorization="Bearer old").status == 401


@at("cost")
def test_run_that_costs_is_found_and_ended_and_everything_is_held(
    desk: OnCall, user: Caller
) -> None:
    user.ask(user.thread(), desk.brain.plan(say("one")))
    key = unique()
    run = user.start(user.thread(), desk.brain.plan(call("slow", key=key), say("never")))
    eventually(lambda: desk.system.ledger(key))
    assert "running    support" in desk.types("ops summary --since 1h")
    assert f"{desk.sees('spent')} today: support: " in desk.types("ops summary")
    assert run["id"] in desk.types("ops runs --status running --agent support")
    assert f"{user.name} today: " in desk.types("ops limits --owner", SUB=user.name)
    desk.types("ops cancel", RUN_ID=run["id"])
    desk.system.open_gate(key)
    assert user.over(run["id"])["status"] == "cancelled"
    desk.types("ops stop")
    refused(user)
    desk.types("ops start")
    begins(user)


@at("erasure")
def test_person_is_found_by_mail_and_nothing_of_theirs_is_left(desk: OnCall, account: None) -> None:
    pool = Pool.make()
    [found] = desk.asks_aws("cognito-idp list-users", POOL=pool.id)["Users"]
    sub = {each["Name"]: each["Value"] for each in found["Attributes"]}[desk.sees("sub")]
    user = desk.system.caller(sub)
    run = user.ask(user.thread(), desk.brain.plan(say("I shall remember.")))
    assert run["status"] == "success"
    assert "is gone" in desk.types("ops erase", SUB=sub)
    desk.asks_aws("cognito-idp admin-delete-user", POOL=pool.id, SUB=sub)
    assert make_client("cognito-idp").list_users(UserPoolId=pool.id)["Users"] == []
    eventually(lambda: desk.types("ops runs --owner", SUB=sub) == "no such runs\n")


def test_every_incident_is_played() -> None:
    marks = [mark for each in globals().values() for mark in getattr(each, "pytestmark", ())]
    played = [mark.args[1][0] for mark in marks if mark.args[:1] == ("desk",)]
    assert played == [*read_incidents()]
