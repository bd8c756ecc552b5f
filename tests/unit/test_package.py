"""The wheel and the source distribution: what is in them, and that an installation finds it."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder

from support.wheels import build_wheel, unpack

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "layers" / "shared" / "python"
FUNCTIONS = ROOT / "functions"
USER_AGENTS = FUNCTIONS / "user_agents"
SHIPPED = "layover/_shipped"
SINGLE = {
    "cdk.json": ROOT / "cdk.json",
    "run.asl.json": ROOT / "infra" / "run.asl.json",
    "runtime.lock": ROOT / "requirements" / "runtime.lock",
    "examples/user_agents/__init__.py": USER_AGENTS / "__init__.py",
}


def files_below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return build_wheel(folder)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the wheel as `pip` unpacks it."""
    folder = tmp_path_factory.mktemp("site-packages")
    unpack(wheel, folder)
    return folder


def names_in(wheel: Path) -> set[str]:
    return {n for n in zipfile.ZipFile(wheel).namelist() if not n.startswith("layover-")}


def printed(installed: Path, code: str, folder: Path) -> str:
    """Return what the code prints with the installed package, in the folder."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(installed), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_wheel_has_package_and_deployment_and_nothing_else(wheel: Path) -> None:
    expected = {path.relative_to(PACKAGES).as_posix() for path in files_below(PACKAGES / "layover")}
    expected |= {
        f"{SHIPPED}/functions/{path.relative_to(FUNCTIONS).as_posix()}"
        for path in files_below(FUNCTIONS)
        if not path.is_relative_to(USER_AGENTS)
    }
    expected |= {f"{SHIPPED}/{name}" for name in SINGLE}
    assert names_in(wheel) == expected


def test_wheel_has_prompts_migrations_pages_and_the_mark_of_types(wheel: Path) -> None:
    names = names_in(wheel)
    assert "layover/py.typed" in names
    for folder, suffix in (
        ("layover/plugins/memory/prompts", ".md"),
        ("layover/adapters/store/postgres/migrations", ".sql"),
        ("layover/adapters/store/postgres/sql", ".sql"),
        (f"{SHIPPED}/functions/api/console/page", ".html"),
    ):
        assert [name for name in names if name.startswith(folder) and name.endswith(suffix)], folder


def test_no_test_is_shipped(wheel: Path) -> None:
    tests = {n for n in names_in(wheel) if Path(n).name.startswith(("test_", "conftest"))}
    assert {name for name in tests if not name.startswith("layover/desk/cli/templates/")} == set()


def test_single_files_are_those_of_the_checkout(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    for name, source in SINGLE.items():
        assert archive.read(f"{SHIPPED}/{name}") == source.read_bytes()


def test_wrapper_of_the_streams_stays_executable(wheel: Path) -> None:
    info = zipfile.ZipFile(wheel).getinfo(f"{SHIPPED}/functions/streams/bootstrap")
    assert info.external_attr >> 16 & 0o111


def test_wheel_of_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    sdist = next(iter(SdistBuilder(str(ROOT)).build(directory=str(tmp_path))))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert names_in(build_wheel(tmp_path / "again", source)) == names_in(wheel)


def test_certificates_that_somebody_brought_to_a_project_are_those_of_its_build(
    installed: Path, tmp_path: Path
) -> None:
    """The command asked for another file than the build then read, and each fetched its own."""
    code = (
        "from pathlib import Path\n"
        "from layover.desk.cdk.build import CERTIFICATES\n"
        "from layover.desk.cli.deploy.run import fetch_certificates\n"
        "CERTIFICATES.parent.mkdir(parents=True)\n"
        "CERTIFICATES.write_text('BEGIN CERTIFICATE')\n"
        "print(fetch_certificates(Path.cwd()))"
    )
    place = tmp_path / ".layover" / "build" / "rds-global-bundle.pem"
    assert printed(installed, code, tmp_path) == f"{place} is there"


def test_extras_are_for_users_and_not_for_this_repository(installed: Path) -> None:
    (metadata,) = installed.glob("layover-*.dist-info/METADATA")
    fields = Parser().parsestr(metadata.read_text())
    assert fields.get_all("Provides-Extra") == ["cdk", "local", "mcp", "offline", "openai", "otel"]


def test_installation_finds_everything_that_it_serves(installed: Path, tmp_path: Path) -> None:
    code = """
import json
from layover.desk import shipped
from layover.desk.local.settings import Settings, child_variables
from layover.desk.local.functions.package import install_package
settings = Settings()
install_package(settings.functions)
import functions.api.handler, functions.streams.handler
from functions.api.console.assets import __file__ as page
places = shipped.SHIPPED
paths = [settings.functions, settings.definition, places.migrations, places.examples / "user_agents",
         places.flags, places.lock]
print(json.dumps({
    "absent": [str(path) for path in paths if not path.exists()],
    "functions": settings.function_names(),
    "places": [str(path) for path in [*paths, page]],
    "agents": settings.has_agents(),
    "path": child_variables(settings, {}, {})["PYTHONPATH"].split(":"),
}))
"""
    answer = json.loads(printed(installed, code, tmp_path))
    assert answer["absent"] == []
    assert answer["functions"] == sorted(p.parent.name for p in FUNCTIONS.glob("*/handler.py"))
    assert [place for place in answer["places"] if not place.startswith(str(installed))] == []
    assert answer["agents"] is False
    # Python's own path has the installed packages last: a project's `agents` is not another package's.
    assert answer["path"] == [f"{installed}/{SHIPPED}/functions", str(tmp_path)]


@pytest.mark.parametrize("extra", ["", "sys.modules['typer'] = None; "])
def test_version_is_told_with_and_without_the_extra(
    installed: Path, tmp_path: Path, extra: str
) -> None:
    code = f"import sys; {extra}sys.argv = ['layover', '--version']; import layover.cli as m"
    version = (ROOT / "pyproject.toml").read_text().split('version = "')[1].split('"')[0]
    assert printed(installed, f"{code}; m.run()", tmp_path) == f"layover {version}"


def test_command_without_the_extra_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['typer'] = None; import layover.desk.cli.main",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1
    assert "pip install 'layover[local]'" in run.stderr
