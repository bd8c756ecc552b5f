"""The asset and the layer for Lambda: built for this machine, and imported by a Python that has nothing
else."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from layover.desk.cdk import build
from layover.desk.cdk.build import Project, Target, content_hash, interpreter, size_mb
from layover.desk.cdk.build import build as build_all
from layover.desk.cdk.locks import head

ROOT = Path(__file__).parents[2]
HANDLERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
VERSION = (
    build.PYTHON
    if interpreter(build.PYTHON)
    else f"{sys.version_info.major}.{sys.version_info.minor}"
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ARCHITECTURES,
    reason="the wheels are of Linux on x86-64 or arm64",
)


def built_in(folder: Path) -> Target:
    """As for Lambda, but for this machine's processor."""
    target = Target(ARCHITECTURES[platform.machine()], VERSION, folder)
    build_all(target)
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The layer and the asset; read only, as on Lambda."""
    return built_in(tmp_path_factory.mktemp("build"))


def alone(target: Target, code: str, *, more: tuple[str, ...] = ()) -> str:
    """Return the code's output with the layer and the asset, but without site-packages."""
    python = interpreter(VERSION)
    assert python is not None
    run = subprocess.run(
        [python, "-s", "-S", "-B", *more, "-c", code],
        env={"PYTHONPATH": f"{target.functions}:{target.layer / 'python'}"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


@pytest.mark.parametrize("name", HANDLERS)
def test_handler_is_imported_from_the_layer_and_the_asset_alone(built: Target, name: str) -> None:
    code = (
        "import time, resource, sys, json; start = time.perf_counter()\n"
        f"import functions.{name}.handler as h\n"
        "assert callable(h.handler)\n"
        "took = time.perf_counter() - start\n"
        "heavy = {'openai', 'numpy', 'psycopg', 'boto3', 'moto'} & sys.modules.keys()\n"
        "print(json.dumps([took, sorted(heavy)]))"
    )
    took, heavy = json.loads(alone(built, code))
    print(f"{name}: imported in {took * 1000:.0f} ms")
    assert heavy == []


def test_adapters_find_their_libraries_in_the_layer(built: Target) -> None:
    code = (
        "from layover.adapters.aws.sdk import client\n"
        "for name in ('dynamodb', 's3', 'stepfunctions', 'events', 'ssm', 'secretsmanager'):\n"
        "    client(name)\n"
        "client('dynamodb').get_paginator('query')\n"
        "import boto3, psycopg, httpx2, jsonschema, pgvector\n"
        "from psycopg import pq; assert pq.__impl__ == 'binary'\n"
        "httpx2.AsyncClient()\n"
        "from layover.plugins.models import prices\n"
        "from layover.adapters.store.postgres.migrate import shipped_migrations as m; assert m()\n"
        "print(boto3.__file__)"
    )
    code = "import os; os.environ['AWS_DEFAULT_REGION'] = 'eu-west-1'\n" + code
    assert alone(built, code).startswith(str(built.layer))


def test_what_runs_on_one_machine_only_stays_out(built: Target) -> None:
    package = built.layer / "python" / "layover"
    assert (package / "wiring.py").is_file()
    assert not (package / "desk").exists()
    assert not (package / "cdk.py").exists()
    assert not (package / "cli.py").exists()
    assert (package / "testing").is_dir()
    assert not (package / "testing" / "contracts").exists()
    channels = package / "plugins" / "people" / "channels"
    assert (channels / "slack" / "sender.py").is_file()
    assert not list(package.rglob("twin*.py"))
    libraries = {path.name for path in (built.layer / "python").iterdir()}
    assert libraries.isdisjoint({"moto", "openai", "pytest", "numpy", "typer", "starlette", "bin"})


def test_layer_is_small_enough(built: Target) -> None:
    print(f"layer: {size_mb(built.layer):.1f} MB, asset: {size_mb(built.functions):.2f} MB")
    assert size_mb(built.layer) < build.LIMIT_MB


@pytest.mark.skipif(
    VERSION != build.PYTHON, reason="bytecode takes a Python of the target's version"
)
def test_cold_start_compiles_nothing_of_the_libraries(built: Target) -> None:
    """Else it would be done again in every cold start: Lambda's disk is read only."""
    code = (
        "import sys, json, pathlib, functions.api.handler, functions.turn.handler\n"
        "import httpx2, psycopg, boto3\n"
        "httpx2.AsyncClient()\n"
        "files = {m: getattr(x, '__file__', None) or '' for m, x in list(sys.modules.items())}\n"
        "here = {m: f for m, f in files.items() if f.startswith(sys.argv[1]) and f.endswith('.py')}\n"
        "bare = [m for m in here if not pathlib.Path(sys.modules[m].__cached__).exists()]\n"
        "print(json.dumps([len(here), bare]))"
    )
    code = code.replace("sys.argv[1]", repr(str(built.folder)))
    loaded, bare = json.loads(alone(built, code))
    assert loaded > 300
    assert bare == []


def test_same_checkout_gives_the_same_bytes(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("def known(name): return name in {'a', 'b', 'c', 'd'}\n")
    hashes = set()
    for attempt in range(3):
        copy = tmp_path / f"copy{attempt}"
        copy.mkdir()
        (copy / "a.py").write_bytes((sources / "a.py").read_bytes())
        os.utime(copy / "a.py", (attempt, attempt))
        build._compile(Target(python=VERSION), copy, None)
        hashes.add(content_hash(copy))
    assert len(hashes) == 1


@pytest.mark.package
def test_build_of_libraries_that_do_not_exist_says_what_pip_said(tmp_path: Path) -> None:
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("/nonexistent/package.whl\n")
    with pytest.raises(build.BuildFailed, match="nonexistent"):
        build._libraries(Target(python=VERSION), wanted)


def test_build_without_pip_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app of the CDK that has the construct builds without `layover synth`."""
    monkeypatch.setitem(sys.modules, "pip", None)
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("nothing-of-this-name\n")
    with pytest.raises(build.BuildFailed, match=r"has no pip.*uv pip install pip"):
        build._libraries(Target(python=VERSION), wanted)


@pytest.mark.package
def test_library_that_is_not_the_locked_file_is_refused(tmp_path: Path) -> None:
    wanted = tmp_path / "requirements.lock"
    wanted.write_text(f"iniconfig==2.1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(build.BuildFailed, match="DO NOT MATCH THE HASHES"):
        build._libraries(Target(python=VERSION), wanted)


@pytest.mark.parametrize("name", ["runtime", "dev", "test", "tools", "docs"])
def test_every_file_of_a_lock_is_known_by_its_hash(name: str) -> None:
    lines = (ROOT / "requirements" / f"{name}.lock").read_text().splitlines()
    pinned = [number for number, line in enumerate(lines) if "==" in line.split(";")[0]]
    assert pinned
    assert all("--hash=sha256:" in lines[number + 1] for number in pinned)
    assert not any("://" in line for line in lines)


def test_locks_are_installed_by_their_hashes() -> None:
    commands = (ROOT / "Makefile").read_text().replace("\\\n", " ").splitlines()
    installing = [line for line in commands if re.search("-r req", line)]
    assert len(installing) >= 4
    assert all("--require-hashes" in line for line in installing)


@pytest.fixture
def own_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `functions` folder whose agents want a package."""
    functions = tmp_path / "functions"
    (functions / "user_agents").mkdir(parents=True)
    (functions / "user_agents" / "__init__.py").write_text("import iniconfig\n")
    (functions / "user_agents" / "requirements.txt").write_text("iniconfig\n")
    monkeypatch.setattr(build, "FUNCTIONS", functions)
    return functions


def test_packages_that_agents_want_are_in_the_asset(own_requirements: Path, tmp_path: Path) -> None:
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    build._build_functions(target, build._libraries(target, build.LOCK))
    assert (target.functions / "iniconfig" / "__init__.py").is_file()
    assert (target.functions / "user_agents" / "__init__.py").is_file()


def wheel_of(folder: Path, name: str, files: dict[str, str]) -> Path:
    """A package index's file, of a distribution with these modules."""
    info = f"{name}-1.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*contents, f"{info}/RECORD"))
    wheel = folder / f"{name}-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel


def test_packages_of_users_may_have_the_names_of_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"{path}.py": "OF = 'user'\n" for path in ("api/__init__", "api/app", "turn", "frame")}
    wheel = wheel_of(tmp_path, "theirs", files)
    functions = tmp_path / "both"
    shutil.copytree(ROOT / "functions", functions)
    (functions / "user_agents" / "resume").mkdir()
    (functions / "user_agents" / "resume" / "rules.py").write_text("OF = 'user'\n")
    (functions / "user_agents" / "requirements.txt").write_text(f"{wheel}\n")
    monkeypatch.setattr(build, "FUNCTIONS", functions)
    monkeypatch.setattr(build, "BUILD", tmp_path)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    build._build_functions(target, tmp_path / "no-layer")
    code = (
        "import importlib.util as i, api.app, turn, frame\n"
        "print(api.OF, api.app.OF, turn.OF, frame.OF)\n"
        "print([i.find_spec(n) is not None for n in\n"
        "    ('functions.turn', 'functions.api.app', 'functions.resume.handler', 'sweep')])"
    )
    run = subprocess.run(
        [sys.executable, "-s", "-S", "-B", "-c", code],
        env={"PYTHONPATH": str(target.functions)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout == "user user user user\n[True, True, True, False]\n", run.stderr
    assert (target.functions / "user_agents" / "resume" / "rules.py").is_file()
    assert (target.functions / "functions" / "streams" / "bootstrap").stat().st_mode & 0o111


def locked_wheel(folder: Path, digest: str) -> Path:
    """A `functions` folder whose agents want a package of no index, and the lock of it."""
    wheel = wheel_of(folder, "theirs", {"theirs.py": "", "more.py": ""})
    wanted = folder / "functions" / "user_agents" / "requirements.txt"
    wanted.parent.mkdir(parents=True)
    wanted.write_text(f"{wheel}\nno-such-distribution\n")
    digest = digest or sha256(wheel.read_bytes()).hexdigest()
    # No other distribution is looked for: a lock is complete.
    text = f"theirs @ {wheel.as_uri()} --hash=sha256:{digest}\n"
    wanted.with_suffix(".lock").write_text(head(wanted) + text)
    return wanted.parents[1]


@pytest.mark.package
def test_agents_get_what_their_lock_has_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FUNCTIONS", locked_wheel(tmp_path, ""))
    monkeypatch.setattr(build, "BUILD", tmp_path)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    build._build_functions(target, tmp_path / "no-layer")
    assert (target.functions / "theirs.py").is_file()


@pytest.mark.package
def test_file_that_the_lock_of_the_agents_does_not_know_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FUNCTIONS", locked_wheel(tmp_path, "0" * 64))
    monkeypatch.setattr(build, "BUILD", tmp_path)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    with pytest.raises(build.BuildFailed, match="DO NOT MATCH THE HASHES"):
        build._build_functions(target, tmp_path / "no-layer")


def test_lock_of_other_requirements_is_refused_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = locked_wheel(tmp_path, "")
    (functions / "user_agents" / "requirements.txt").write_text("another\n")
    monkeypatch.setattr(build, "FUNCTIONS", functions)
    monkeypatch.setattr(build, "BUILD", tmp_path)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    with pytest.raises(
        build.BuildFailed,
        match=r"user_agents/requirements\.lock was made of other.*: run `layover lock`",
    ):
        build._build_functions(target, tmp_path / "no-layer")


def test_lock_is_an_input_of_the_build(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("theirs\n")
    project = Project(tmp_path / "agents", requirements=wanted)
    before = build._inputs(Target(), project)
    wanted.with_suffix(".lock").write_text(head(wanted))
    assert build._inputs(Target(), project) != before


@pytest.mark.parametrize(
    "name", ["functions", pytest.param("user_agents", marks=pytest.mark.package)]
)
def test_package_of_a_name_that_layover_needs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    wheel = wheel_of(tmp_path, "theirs", {f"{name}/__init__.py": ""})
    (tmp_path / "functions" / "user_agents").mkdir(parents=True)
    (tmp_path / "functions" / "user_agents" / "requirements.txt").write_text(f"{wheel}\n")
    monkeypatch.setattr(build, "FUNCTIONS", tmp_path / "functions")
    monkeypatch.setattr(build, "BUILD", tmp_path)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    with pytest.raises(build.BuildFailed, match=f"installs a package '{name}', which is Layover's"):
        build._build_functions(target, tmp_path / "no-layer")


def test_what_the_layer_has_is_in_the_asset_in_no_other_version(
    own_requirements: Path, tmp_path: Path
) -> None:
    """Lambda looks into the asset first: all functions would get an unlocked pydantic."""
    # It needs pydantic and all that pydantic needs, and a package that the layer does not have.
    (own_requirements / "user_agents" / "requirements.txt").write_text(
        "pydantic-settings==2.11.0\n"
    )
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    build._build_functions(target, build._libraries(target, build.LOCK))
    there = {path.name for path in target.functions.iterdir()}
    assert {"pydantic_settings", "dotenv"} <= there
    assert there.isdisjoint({"pydantic", "pydantic_core", "typing_extensions.py"})
    assert not [name for name in there if name.startswith("pydantic-")]


def test_package_that_the_layer_has_in_another_version_is_refused(
    own_requirements: Path, tmp_path: Path
) -> None:
    (own_requirements / "user_agents" / "requirements.txt").write_text("pydantic==2.9.0\n")
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    with pytest.raises(build.BuildFailed, match="pydantic==2"):
        build._build_functions(target, build._libraries(target, build.LOCK))


WRONG: dict[str, tuple[dict[str, Path], str]] = {
    "nothing": ({"agents": Path("none")}, "there is no none"),
    "a file of another kind": ({"agents": Path("agents.txt")}, "agents.txt is not a module"),
    "a name that nobody can import": (
        {"agents": Path("my-agents")},
        "my-agents cannot be imported",
    ),
    "the functions' name": ({"agents": Path("functions")}, "has Layover's name 'functions'"),
    "layover's name": ({"agents": Path("layover")}, "has Layover's name 'layover'"),
    "requirements that are not there": (
        {"agents": Path("agents"), "requirements": Path("requirements.txt")},
        "there is no requirements.txt",
    ),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, with agents and what they import."""
    for name in ("agents", "shop", "functions", "layover", "my-agents"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OF = {name!r}\n")
    (tmp_path / "agents.txt").touch()
    (tmp_path / "rules.py").write_text("OF = 'rules'\n")
    (tmp_path / "agents" / "test_agents.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("parts", "says"), WRONG.values(), ids=list(WRONG))
def test_project_that_cannot_be_packed_is_refused(
    project: Path, parts: dict[str, Path], says: str
) -> None:
    with pytest.raises(build.BuildFailed, match=says):
        build.Project(**parts).check()  # type: ignore[arg-type]


def test_code_of_a_project_is_packed_under_its_own_names(project: Path) -> None:
    """No test of theirs goes along, nor what only a checkout has."""
    theirs = build.Project(Path("agents"), (Path("shop"), Path("rules.py")))
    target = Target(ARCHITECTURES[platform.machine()], VERSION, project / "out")
    build._build_functions(target, project / "no-layer", theirs)
    names = {path.name for path in target.functions.iterdir() if path.name != "__pycache__"}
    assert names == {"agents", "functions", "rules.py", "shop"}
    assert not (target.functions / "agents" / "test_agents.py").exists()
    code = "import agents, rules, shop; print(agents.OF, rules.OF, shop.OF)"
    run = subprocess.run(
        [sys.executable, "-s", "-S", "-B", "-c", code],
        env={"PYTHONPATH": str(target.functions)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout == "agents rules shop\n", run.stderr


def test_link_to_nowhere_is_not_packed(
    own_requirements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors lock files so: next to agents, and in a checkout also next to handlers."""
    (own_requirements / "user_agents" / "requirements.txt").unlink()
    (own_requirements / "api").mkdir()
    (own_requirements / "api" / "handler.py").touch()
    for folder in ("api", "user_agents"):
        (own_requirements / folder / ".#lock.py").symlink_to("ann@desk.1:2")
    monkeypatch.setattr(build, "_compile", lambda *_: None)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, tmp_path / "out")
    build._build_functions(target, tmp_path / "no-layer")
    names = {path.name for path in build.files_of(target.functions)}
    assert names == {"__init__.py", "handler.py"}
    assert not list(target.functions.rglob(".#*"))


def test_layover_in_the_requirements_of_agents_does_not_hide_the_layers(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However pip installs on this machine."""
    settings = project / "pip.conf"
    settings.write_text(f"[install]\nuser = true\nprefix = {project}/a\nroot = {project}/b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    wheel_of(project, "layover", {"layover/__init__.py": "OF = 'another release'\n"})
    theirs = wheel_of(project, "theirs", {"theirs.py": ""})
    wanted = Path("requirements.txt")
    wanted.write_text(f"{project}/layover-1-py3-none-any.whl\n{theirs}\n")
    monkeypatch.setattr(build, "BUILD", project)
    target = Target(ARCHITECTURES[platform.machine()], VERSION, project / "out")
    build._build_functions(target, project / "no-layer", build.Project(Path("agents"), (), wanted))
    names = {path.name for path in target.functions.iterdir()}
    assert "theirs.py" in names
    assert "layover" not in names


def test_project_is_built_again_when_anything_of_it_changes(project: Path) -> None:
    target, theirs = Target(folder=project / "out"), build.Project(Path("agents"), (Path("shop"),))
    inputs = build._inputs(target, theirs)
    (project / "shop" / "__pycache__").mkdir(exist_ok=True)
    (project / "shop" / "__pycache__" / "prices.cpython-313.pyc").write_bytes(b"compiled")
    assert build._inputs(target, theirs) == inputs
    (project / "shop" / "prices.py").write_text("EUROS = 1\n")
    changed = build._inputs(target, theirs)
    assert changed != inputs
    assert build._inputs(target, build.Project(Path("agents"))) != changed
