"""Other people's machines: their shells, editors, containers and package tools."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from layover import Agent
from layover.adapters.http.client import Response
from layover.adapters.http.request import Url
from layover.adapters.http.tls import system_trust
from layover.desk.cdk import build
from layover.desk.cli.releases import pinned
from layover.desk.local.postgres_data import socket_folder, wheels_server
from layover.desk.local.serve import variables_of
from layover.desk.local.sources import Sources
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.runs.run import Status
from reports import Found, report
from reports.kit import Provider, said
from support.commands import call
from support.worlds.runs import Bench, words_of


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """The agents of a project, one file of which Emacs has open and unsaved."""
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "__init__.py").write_text("good = 1\n")
    (folder / ".#__init__.py").symlink_to("ann@desk.4711:1700000000")
    return folder


class Headers(Provider):
    """Keeps the headers of each request, too."""

    def __init__(self) -> None:
        super().__init__(lambda *_: said("Hello!"))
        self.headers: list[Mapping[str, str]] = []

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        self.headers.append(headers)
        return await super().post(url, headers, body, silence_s)


@report("microsoft/vscode-python#16844, nodejs/node#40169", Found.MENDED)
def test_a_pip_that_installs_for_its_user_still_builds_for_lambda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose pip installs for the user, or below a prefix, unless it is told otherwise builds the
    packages for Lambda as any other machine does.

    Options win over variables and pip.conf. Without these three, pip refuses `--target`, or installs
    elsewhere: a test of the build, which starts pip, has such a pip.conf."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    wanted = tmp_path / "requirements.txt"
    wanted.touch()
    build._install(build.Target(), wanted, tmp_path / "out", [])
    (command,) = commands
    assert {"--no-user", "--prefix=", "--root=/"} < {*command}


@report("npm/cli#1365, rust-lang/rustlings#673", Found.MENDED)
def test_the_lock_of_an_editor_stops_neither_a_reload_nor_a_build(
    agents: Path, tmp_path: Path
) -> None:
    """Emacs' link to nowhere next to an unsaved file is no change of the agents, and what is saved is taken
    and packed as if it were not there."""
    (agents / ".#__init__.py").unlink()
    sources = Sources("agents", [tmp_path], tmp_path / "copy")
    (agents / ".#__init__.py").symlink_to("ann@desk.4711:1700000000")
    assert not sources.has_changed()
    (agents / "__init__.py").write_text("better = 2\n")
    assert sources.has_changed()
    sources.keep()
    build._copy(agents, tmp_path / "packed")
    for copy in (tmp_path / "copy" / "agents", tmp_path / "packed"):
        assert [path.name for path in copy.iterdir()] == ["__init__.py"]
        assert (copy / "__init__.py").read_text() == "better = 2\n"


@pytest.fixture
def no_roots(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Variables of an environment that was moved: its root certificates are elsewhere now."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, "/nonexistent/ssl")
    system_trust.cache_clear()
    yield
    system_trust.cache_clear()


@pytest.mark.usefixtures("no_roots")
@report("Aider-AI/aider#3710", Found.MENDED)
async def test_root_certificates_that_are_not_there_are_named() -> None:
    """A run that can verify no server, because SSL_CERT_FILE names a file that is not there, fails at once
    and names the variable."""
    model = OpenAIChat("key", "https://127.0.0.1:9/v1")
    bench = Bench(Agent("desk", model="m"), model)
    run = await bench.go("hi")
    await model.aclose()
    assert (run.status, run.error and run.error.type) == (Status.FAILED, "ConfigurationError")
    assert run.error is not None
    assert "SSL_CERT_FILE" in words_of(run)


@report("apache/devlake#7132, openai-php/client#82", Found.MENDED)
async def test_the_end_of_a_keys_line_is_no_part_of_the_key() -> None:
    """A key that was copied with blanks, or read with the end of its line, is sent without them."""
    provider = Headers()
    model = OpenAIChat(" sk-1 \n", "https://model.example/v1", make_client=lambda: provider)
    run = await Bench(Agent("desk", model="m"), model).go("hi")
    assert (run.text, provider.headers[0]["authorization"]) == ("Hello!", "Bearer sk-1")


@report("serverless/serverless-python-requirements#442, osprey-oss/deptry#1393", Found.MENDED)
def test_requirements_that_powershell_wrote_are_read(tmp_path: Path) -> None:
    """The pin in a `requirements.txt` that `pip freeze >` of PowerShell wrote (UTF-16) is known to `layover
    doctor`, and `layover init` asks for no line that it has."""
    text = "httpx==0.28.1\r\nlayover[local,cdk]==0.0.7\r\n"
    (tmp_path / "requirements.txt").write_bytes(text.encode("utf-16"))
    assert pinned(tmp_path) == "0.0.7"
    ended = call(tmp_path, "init", ".")
    lines = [each for each in ended.stdout.splitlines() if "requirements.txt" in each]
    assert ended.returncode == 0
    assert lines
    assert not any("layover" in line for line in lines)


@report("unclecode/crawl4ai#1411, caura-ai/caura#346", Found.MENDED)
def test_a_variable_that_a_container_passes_empty_does_not_hide_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that the environment has without a value, as a container whose host lacks it, leaves the
    value of `.env`."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-1\nLAYOVER_MODEL=m\n")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("LAYOVER_MODEL", "other")
    found = variables_of(tmp_path)
    assert (found["OPENAI_API_KEY"], found["LAYOVER_MODEL"]) == ("sk-1", "other")


@report("jetify-com/devbox#1575, cachix/devenv#952", Found.RIGHT, held_back=True)
def test_postgres_starts_in_a_folder_with_a_long_path() -> None:
    """The socket of PostgreSQL has a path that the system takes, however long the project's is."""
    folder = Path("/home/ann/code/company/customers") / ("a-name-that-says-all" * 4) / ".layover"
    assert len(os.fsencode(socket_folder(folder / "postgres") / ".s.PGSQL.5432")) <= 103


@report("cachix/devenv#961, fergusstrange/embedded-postgres#17", Found.RIGHT, held_back=True)
def test_postgres_has_a_user_where_root_starts_it(tmp_path: Path) -> None:
    """In a container whose user is root, PostgreSQL runs as another user, for itself."""
    user = wheels_server(tmp_path).system_user
    assert user is None if os.geteuid() else user
