"""`layover doctor`: a line for each thing that has to work, and what is wrong with what does not."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError
from moto import mock_aws
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from layover.desk.cli.client import ApiError
from layover.desk.cli.deploy.machine import Machine
from layover.desk.cli.doctor import WAKING_S, Doctor, main, ping
from layover.desk.cli.tokens import TokenFile
from layover.project import FILE, Project, read
from support.aws.mocked import make_client

RUN = {"id": "run_1", "status": "success", "usage": {"total_tokens": 12, "cost_usd": 0.0004}}


@dataclass
class Clinic:
    """A deployment that answers as it is told. Time passes only in pauses."""

    token: bool = True
    ill: dict[str, list[ApiError]] = field(default_factory=dict)
    """Path -> what it answers before it is well."""
    runs: list[dict[str, Any]] = field(default_factory=lambda: [RUN])
    operated: dict[str, Any] | None = None
    """The run as operators see it; None: the user is none."""
    deleted: list[str] = field(default_factory=list)
    time: float = 0

    def get(self, path: str, **query: object) -> Any:
        """As `Api.get`."""
        self._fail(path)
        if path == "/agents":
            if not self.token:
                raise ApiError("send a token", 1, 401)
            return {"items": [{"name": "support"}]}
        if path.startswith("/operate"):
            if self.operated is None:
                raise ApiError("only for operators", 1, 403)
            return self.operated
        return self._run() if path.startswith("/runs") else {"status": "ok"}

    def post(self, path: str, **body: object) -> Any:
        """As `Api.post`."""
        self._fail(path)
        if path == "/socket-tickets":
            return {"url": "wss://sockets.example/live?ticket=secret"}
        return self._run() if path.endswith("/runs") else {"id": "thr_1"}

    def delete(self, path: str) -> None:
        """As `Api.delete`."""
        self.deleted.append(path)

    def ping(self, url: str) -> None:
        """As `doctor.ping`."""
        assert url.endswith("?ticket=secret")
        self._fail("ping")

    def pause(self, seconds: float) -> None:
        """Time passes."""
        self.time += seconds

    def _run(self) -> dict[str, Any]:
        return self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]

    def _fail(self, path: str) -> None:
        if self.ill.get(path):
            raise self.ill[path].pop(0)


def examine(
    clinic: Clinic, *, open_doors: bool = False, run: bool = True, agent: str | None = None
) -> int:
    """The exit code."""
    stranger: Any = Clinic(token=open_doors)
    api: Any = clinic
    doctor = Doctor(api, stranger, clinic.pause, lambda: clinic.time, clinic.ping)
    return doctor.examine(agent, run=run)


def waking(times: int) -> dict[str, list[ApiError]]:
    """A database that is asleep for so many requests."""
    return {"/memory/profile": [ApiError("waking", 3, 503) for _ in range(times)]}


def test_api_that_answers_strangers_is_ill(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(), open_doors=True) == 1
    assert "FAIL  strangers" in capsys.readouterr().err


def test_first_failure_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    clinic = Clinic(ill={"/agents": [ApiError("the token lacks a scope (403)", 1, 403)]})
    assert examine(clinic) == 1
    said = capsys.readouterr()
    assert "FAIL  sign-in: the token lacks a scope" in said.err
    assert "database" not in said.out


def test_comparison_of_releases_ends_nothing_and_its_failure_is_not_forgotten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def another() -> str:
        raise ApiError("requirements.txt pins 0.1.0, and 0.2.0 is installed", 1)

    clinic: Any = Clinic()
    stranger: Any = Clinic(token=False)
    doctor = Doctor(clinic, stranger, clinic.pause, lambda: clinic.time, clinic.ping, another)
    assert doctor.examine(None, run=True) == 1
    said = capsys.readouterr()
    assert said.err == "FAIL  releases: requirements.txt pins 0.1.0, and 0.2.0 is installed\n"
    assert said.out.count("ok    ") == 6
    clinic.ill = {"/healthz": [], "/agents": [ApiError("no answer", 3)]}
    assert doctor.examine(None, run=True) == 3


def test_database_that_does_not_wake_is_ill(capsys: pytest.CaptureFixture[str]) -> None:
    clinic = Clinic(ill=waking(100))
    assert examine(clinic) == 3
    assert "FAIL  database" in capsys.readouterr().err
    assert WAKING_S <= clinic.time <= WAKING_S + 10


def test_sockets_that_do_not_answer_are_ill(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(ill={"ping": [ApiError("no pong within 15 s", 3)]})) == 3
    said = capsys.readouterr()
    assert "FAIL  sockets: no pong" in said.err
    assert "secret" not in said.out + said.err


@contextmanager
def sockets(answer: str, status: int = 101) -> Iterator[str]:
    """The URL of a server of sockets that answers every frame so, or refuses connections."""

    def refuse(connection: ServerConnection, _: Request) -> Response | None:
        return None if status == 101 else connection.respond(HTTPStatus(status), "no")

    def talk(connection: ServerConnection) -> None:
        for _ in connection:
            connection.send(answer)

    with serve(talk, "127.0.0.1", 0, process_request=refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/?ticket=secret"
        server.shutdown()
        thread.join(60)


def test_socket_that_says_pong_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.setenv(name, "" if name == "no_proxy" else "http://127.0.0.1:1")
    with sockets('{"action": "pong"}') as url:
        ping(url)


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        ('{"message": "Internal server error"}', 101, "something other"),
        ("no JSON", 101, "broke"),
        ("", 401, "refused .401."),
    ],
)
def test_socket_that_does_not_says_why_without_its_ticket(
    answer: str, status: int, why: str
) -> None:
    with sockets(answer, status) as url, pytest.raises(ApiError, match=why) as raised:
        ping(url)
    assert "secret" not in str(raised.value)


def test_socket_that_nobody_serves_is_an_error_in_one_line() -> None:
    with sockets("") as url:
        pass
    with pytest.raises(ApiError, match="the socket broke: ConnectionRefusedError"):
        ping(url)


def test_mistyped_agent_is_told_the_nearest_and_no_thread_is_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert examine(Clinic(), agent="suport") == 2
    assert "FAIL  run: no agent 'suport': did you mean 'support'?" in capsys.readouterr().err


@pytest.mark.parametrize("named", [False, True])
def test_where_nobody_has_signed_in_a_system_on_this_machine_is_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        local = f"http://127.0.0.1:{free.getsockname()[1]}"
    url = local if named else ""
    assert main(url, "", TokenFile(tmp_path), None, run=True, local=local) == 3
    told = capsys.readouterr().err
    assert told.startswith(f"FAIL  health: no answer from {local}: ")
    assert told.endswith("; does `layover dev` run?\n")


def test_deployment_where_nobody_has_signed_in_asks_for_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://api.example"
    assert main(url, "", TokenFile(tmp_path), None, run=True) == 2
    assert f"sign in first: layover login --url {url}" in capsys.readouterr().err


# A stage


class Unread(Machine):
    """A machine on which no agents are imported."""

    def import_agents(self, project: Project, variables: Mapping[str, str]) -> str | None:
        """Nobody knows."""
        return None


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """A project whose agents need a secret that no stage has."""
    (tmp_path / "agents").mkdir()
    code = 'from layover import secret\nKEY = secret("SHOP_KEY")\n'
    (tmp_path / "agents" / "__init__.py").write_text(code)
    (tmp_path / FILE).write_text('name = "shop"\n[stages.dev]\n')
    return read(tmp_path)


@pytest.fixture
def client() -> Iterator[Callable[..., Any]]:
    with mock_aws():
        yield make_client


def deployed(client: Callable[..., Any], url: str) -> None:
    """A system of the stage."""
    machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:shop-dev-run"
    outputs = {"AgentsStateMachineArn": machine, "AgentsApiUrl": url}
    template = {
        "Resources": {"T": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    client("cloudformation").create_stack(StackName="shop-dev", TemplateBody=json.dumps(template))


def of_stage(shop: Project, client: Callable[..., Any], url: str = "", local: str = "") -> int:
    tokens = TokenFile(shop.root / "tokens")
    return main(
        url,
        "",
        tokens,
        None,
        run=True,
        local=local,
        project=shop,
        stage="dev",
        machine=Unread(),
        client=client,
    )


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A system on this machine, which may be another project's: its address, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(HTTPStatus.SERVICE_UNAVAILABLE)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_stage_that_is_not_deployed_is_not_looked_for_on_this_machine(
    shop: Project, client: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with listening() as (local, asked):
        assert of_stage(shop, client, local=local) == 1
    assert asked == []
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(
        "FAIL  system: no stack of this account and region has shop-dev: `layover deploy --stage dev`"
    )


def test_stage_whose_account_cannot_be_looked_into_is_not_looked_for_on_this_machine(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: str) -> Any:
        raise NoCredentialsError

    with listening() as (local, asked):
        assert of_stage(shop, refuse, local=local) == 1
    assert asked == []
    assert "FAIL  system: what is deployed as dev was not looked at" in capsys.readouterr().err


def test_stage_is_asked_at_its_own_address(
    shop: Project, client: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with listening() as (local, asked_here), listening() as (there, asked_there):
        deployed(client, there)
        assert of_stage(shop, client, local=local) == 3
    assert (asked_here, asked_there) == ([], ["/healthz"])


def test_address_that_is_given_wins_over_that_of_the_stage(
    shop: Project, client: Callable[..., Any]
) -> None:
    with listening() as (given, asked):
        assert of_stage(shop, client, url=given) == 3
    assert asked == ["/healthz"]


def test_doctor_of_a_stage_names_what_its_agents_need_and_it_lacks(
    shop: Project, client: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert of_stage(shop, client) == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("FAIL  stage: dev lacks SHOP_KEY: agents/__init__.py:2 has secret(")


def test_stage_that_lacks_nothing_is_well(
    shop: Project, client: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    toml = shop.root / FILE
    toml.write_text(f'{toml.read_text()}tool_secrets = {{ SHOP_KEY = "/shop/key" }}\n')
    of_stage(read(shop.root), client)
    assert capsys.readouterr().out.startswith("ok    stage: dev lacks nothing that the code of the")


def test_settings_of_a_stage_that_make_no_sense_end_it_in_a_sentence(
    shop: Project, client: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    app = shop.root / "infra" / "app.py"
    app.parent.mkdir()
    app.write_text("Settings.from_context(context)\n")
    toml = shop.root / FILE
    toml.write_text(f"{toml.read_text()}sign_up = true\n")
    assert of_stage(read(shop.root), client) == 2
    assert capsys.readouterr().err.startswith("layover: sign_up needs daily_tokens or daily_cost")


def failing(**why: Any) -> Clinic:
    """One whose run fails."""
    told = {"type": "ConfigurationError", "message": "A setting of this service is missing."}
    runs = [RUN | {"status": "running"}, RUN | {"status": "failed", "error": told}]
    return Clinic(runs=runs, operated={"error": why} if why else None)


def test_run_that_fails_says_why_and_leaves_no_thread(capsys: pytest.CaptureFixture[str]) -> None:
    clinic = failing()
    assert examine(clinic) == 1
    assert "ConfigurationError: A setting of this service is missing." in capsys.readouterr().err
    assert clinic.deleted == ["/threads/thr_1"]


def test_run_that_fails_tells_an_operator_what_its_provider_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clinic = failing(detail={"message": "put the key into SSM as /layover/dev/key"})
    assert examine(clinic) == 1
    assert "put the key into SSM" in capsys.readouterr().err
    assert clinic.deleted == ["/threads/thr_1"]


def test_database_that_wakes_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(ill=waking(3))) == 0
    assert "ok    database: answers after 15 s" in capsys.readouterr().out


def test_deployment_without_sockets_is_well() -> None:
    assert examine(Clinic(ill={"/socket-tickets": [ApiError("no such path", 1, 404)]})) == 0


def test_everything_that_is_well_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic()) == 0
    said = capsys.readouterr().out
    checked = [line.split()[1] for line in said.splitlines()]
    assert checked == ["health:", "strangers:", "sign-in:", "database:", "sockets:", "run:"]
    assert "12 tokens (0.000400 US dollars)" in said
    assert "secret" not in said


def test_nothing_is_spent_unless_a_run_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(runs=[]), run=False) == 0
    assert "run" not in capsys.readouterr().out
