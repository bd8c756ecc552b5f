"""Builds the code for Lambda: `python -m layover.desk.cdk.build` makes build/layer and build/functions.

It needs no Docker: pip unpacks wheels for the target. The same sources built by the same Python give the same
bytes, so an unchanged layer is not uploaded again.

Lambda cannot write bytecode, and compiling the source costs a cold start more than a second. If there is a
Python of the target's version, the build compiles what a cold start loads (hash-based, never checked)."""

import argparse
import csv
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from layover.desk.cdk import certificates
from layover.desk.cdk.distributions import requirements_in
from layover.desk.cdk.locks import lock_of, problem
from layover.desk.shipped import INSTALLED, sources

_SOURCES = sources()
BUILD = _SOURCES.build
PACKAGE = _SOURCES.package
FUNCTIONS = _SOURCES.functions
LOCK = _SOURCES.lock
HANDLERS = "functions"
"""The package of the handlers, below /var/task. Users' packages are next to it, under any other name."""
USER_AGENTS = "user_agents"
"""The agents' package in a checkout."""
CERTIFICATES = certificates.BUNDLE

PYTHON = "3.13"
LIMIT_MB = 70.0
"""Megabytes of the unzipped layer. Lambda takes 250 MiB with the functions, but each megabyte costs time in a
cold start."""
LEFT_OUT = (
    "desk",
    "cdk.py",
    "cli.py",
    "testing/contracts",
    "plugins/people/**/twin*.py",
    INSTALLED,
)
"""Patterns of what no function needs: the one-machine system, the deployment, tests."""
RUBBISH = ("bin", "*.dist-info/RECORD", "*.dist-info/INSTALLER", "*.dist-info/REQUESTED")
"""Files that name pip's path and interpreter. Only they differ from machine to machine."""
UNUSED = (
    "*/tests",
    "botocore/data/*/*/examples-1.json*",
    "boto3/examples",
    "*.dist-info/sboms",
    "**/*.pyi",
)
NOT_PACKED = shutil.ignore_patterns("__pycache__", "*.pyc", "test_*.py")
PLATFORMS = {
    "arm64": ("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    "x86_64": ("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
}
NO_PIP = (
    "this environment has no pip, which unpacks packages for Lambda: uv pip install pip, or "
    f"{sys.executable} -m ensurepip (with uv tool: uv tool install --with pip 'layover[local,cdk]')"
)


class BuildFailed(Exception):
    """The build failed. The message says what to do."""


@dataclass(frozen=True)
class Target:
    """The platform of the code, and its folder."""

    architecture: str = "arm64"
    python: str = PYTHON
    folder: Path = BUILD

    @property
    def layer(self) -> Path:
        """The folder that becomes /opt."""
        return self.folder / "layer"

    @property
    def functions(self) -> Path:
        """The folder that becomes /var/task."""
        return self.folder / "functions"


@dataclass(frozen=True)
class Project:
    """The code of a project of one's own: what goes to Lambda next to Layover's functions."""

    agents: Path
    """The package (a folder) or the module (a file) of the agents. It keeps its name."""
    packages: tuple[Path, ...] = ()
    """Further packages and modules of the project, which the agents import."""
    requirements: Path | None = None
    """File with the packages from an index that they import, as pip reads it."""

    @property
    def module(self) -> str:
        """Return the name under which the agents are imported."""
        return self.agents.stem

    @property
    def parts(self) -> tuple[Path, ...]:
        """Return everything that is copied."""
        return (self.agents, *self.packages)

    def check(self) -> None:
        """Check that the parts can be packed. Raises BuildFailed."""
        for path in self.parts:
            if not path.exists():
                raise BuildFailed(
                    f"there is no {path}: name a package (a folder) or a module (a file)"
                )
            if path.is_file() and path.suffix != ".py":
                raise BuildFailed(f"{path} is not a module of Python: name a .py file or a folder")
            if not path.stem.isidentifier():
                raise BuildFailed(
                    f"{path.name} cannot be imported: letters, digits and _ make a name"
                )
            if path.stem in (HANDLERS, "layover"):
                raise BuildFailed(f"{path} has Layover's name {path.stem!r}: give it another one")
        if self.requirements is not None and not self.requirements.is_file():
            raise BuildFailed(f"there is no {self.requirements} with the agents' requirements")


def build(target: Target, project: Project | None = None) -> None:
    """Make both folders anew. `project`: without it the functions' own folder has the agents, as in a
    checkout. Downloads stay in `wheels-...` of the build folder for the next build. Raises BuildFailed."""
    libraries = _libraries(target, LOCK)
    _build_functions(target, libraries, project)
    _build_layer(target, libraries)


def build_if_changed(target: Target, project: Project) -> None:
    """Make both folders, unless the last build had the same inputs. Raises BuildFailed."""
    project.check()
    stamp, inputs = target.folder / "inputs.txt", _inputs(target, project)
    if stamp.is_file() and stamp.read_text() == inputs:
        return
    stamp.unlink(missing_ok=True)
    build(target, project)
    stamp.write_text(inputs)


def _inputs(target: Target, project: Project) -> str:
    """Return a hash of all that a build reads."""
    digest = hashlib.sha256(f"{target.architecture} {target.python} {project.module}".encode())
    files = [LOCK, CERTIFICATES]
    if project.requirements is not None:
        files += [project.requirements, lock_of(project.requirements)]
    for path in (*files, *project.parts, FUNCTIONS, PACKAGE):
        digest.update(f"{path.name}\n".encode())
        if path.is_file():
            digest.update(path.read_bytes())
        elif path.is_dir():
            # Whoever imports a module compiles it, and that changes no build.
            digest.update(content_hash(path, compiled=False).encode())
    return digest.hexdigest()


def _build_layer(target: Target, libraries: Path) -> None:
    python = target.layer / "python"
    _empty(target.layer)
    shutil.copytree(libraries, python)
    shutil.copytree(PACKAGE, python / "layover", ignore=_left_out)
    if not CERTIFICATES.exists():
        print(f"no {CERTIFICATES.name}: this layer cannot be deployed before it is fetched")
    else:
        _check_certificates(CERTIFICATES)
        (target.layer / "certificates").mkdir()
        shutil.copyfile(CERTIFICATES, target.layer / "certificates" / "rds.pem")
    _compile(target, python, _loaded_by_cold_starts(target))
    if (size := size_mb(target.layer)) > LIMIT_MB:
        raise BuildFailed(
            f"the layer has {size:.1f} MB, more than {LIMIT_MB:.0f}: leave something out"
        )


def _build_functions(target: Target, in_layer: Path, project: Project | None = None) -> None:
    _empty(target.functions)
    if project is not None:
        requirements = project.requirements
    else:
        requirements = FUNCTIONS / USER_AGENTS / "requirements.txt"
        requirements = requirements if requirements.exists() else None
    if requirements is not None and any(requirements_in(requirements)):
        own = _libraries(target, requirements, layer_wheels=in_layer, lock=_lock(requirements))
        _check_names(own, requirements, (HANDLERS, project.module if project else USER_AGENTS))
        shutil.copytree(own, target.functions, dirs_exist_ok=True)
    if project is None:
        _copy(FUNCTIONS, target.functions, _not_of_users)
    else:
        for path in project.parts:
            _copy(path, target.functions / path.name)
    handlers = target.functions / HANDLERS
    handlers.mkdir()
    # With an `__init__.py` it wins against any package of this name that is later on Lambda's path.
    (handlers / "__init__.py").touch()
    for name in _function_names():
        _copy(FUNCTIONS / name, handlers / name)
    _compile(target, target.functions, None)


def _copy(path: Path, to: Path, ignore: Callable[[Any, list[str]], set[str]] = NOT_PACKED) -> None:
    if path.is_dir():
        # An editor's lock is a link that leads nowhere: Emacs has one next to each unsaved file.
        shutil.copytree(path, to, ignore=ignore, dirs_exist_ok=True, ignore_dangling_symlinks=True)
    else:
        shutil.copyfile(path, to)


def _not_of_users(folder: str, names: list[str]) -> set[str]:
    functions = _function_names() if Path(folder) == FUNCTIONS else []
    return NOT_PACKED(folder, names) | set(functions)


def _function_names() -> list[str]:
    return sorted(path.parent.name for path in FUNCTIONS.glob("*/handler.py"))


def _check_names(libraries: Path, requirements: Path, reserved: tuple[str, str]) -> None:
    """Check what the agents' requirements install. Raises BuildFailed."""
    names = {path.name.partition(".")[0] for path in libraries.iterdir()}
    for name in names.intersection(reserved):
        whose = "Layover's name" if name in (HANDLERS, USER_AGENTS) else "the name of your agents"
        where = "/".join(requirements.parts[-3:])
        raise BuildFailed(f"{where} installs a package {name!r}, which is {whose}: leave it out")


def _check_certificates(bundle: Path) -> None:
    """Check the bundle; the region, whose root matters, is known only at synthesis (`infra.app`). Raises
    BuildFailed."""
    wrong = certificates.problem(bundle.read_text(errors="replace"), datetime.now(UTC))
    if wrong is not None:
        raise BuildFailed(f"{bundle} {wrong}: delete it, and deploy again")


def _left_out(folder: str, names: list[str]) -> set[str]:
    rubbish = {n for n in names if n == "__pycache__" or n.endswith(".pyc")}
    inside = Path(folder).relative_to(PACKAGE)
    places = {name: (inside / name).as_posix() for name in names}
    return rubbish | {n for n, at in places.items() if any(fnmatch(at, p) for p in LEFT_OUT)}


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


# Libraries


def _lock(requirements: Path) -> Path | None:
    """Return the lock of the agents' requirements; None if there is none. Raises BuildFailed."""
    lock = lock_of(requirements)
    if lock == requirements or not lock.is_file():
        return None
    if (why := problem(requirements)) is not None:
        raise BuildFailed(f"{lock.parent.name}/{why}: run `layover lock`")
    return lock


def _libraries(
    target: Target,
    requirements: Path,
    *,
    layer_wheels: Path | None = None,
    lock: Path | None = None,
) -> Path:
    """Return the folder with the unpacked wheels of a lock: that of the last build, if nothing has changed.

    `layer_wheels`: the folder of the layer's wheels, for requirements of agents. Whatever the layer has is
    then left out: Lambda looks into the asset before the layer, so another version there would hide the
    layer's. `lock`: of such requirements. Without it they are installed with their dependencies, and what
    they do not pin keeps the version that was found first, until they or the layer's lock change, or until
    `make clean`."""
    source = lock or requirements
    which = f"{target.architecture} {target.python} {layer_wheels is not None}"
    key = which.encode() + source.read_bytes() + Path(__file__).read_bytes()
    if layer_wheels is not None:
        key += LOCK.read_bytes()
    digest = hashlib.sha256(key).hexdigest()[:16]
    folder = BUILD / f"wheels-{digest}"
    if not folder.exists():
        fresh = BUILD / f"wheels-{digest}.{os.getpid()}"
        _empty(fresh)
        is_locked = layer_wheels is None or lock is not None
        options = ["--no-deps", "--require-hashes"] if is_locked else []
        if layer_wheels is not None:
            options += ["--constraint", str(_constraints(fresh))]
        _install(target, source, fresh, options)
        if layer_wheels is not None:
            # Layover itself is in the layer, too, and an agent's requirements may well name it.
            in_layer = (*layer_wheels.glob("*.dist-info"), *fresh.glob("layover-*.dist-info"))
            _leave_out(fresh, {path.name for path in in_layer})
        _prune(fresh)
        try:
            fresh.rename(folder)
        except OSError:  # Another build was faster.
            shutil.rmtree(fresh)
    return folder


def _install(target: Target, requirements: Path, folder: Path, options: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-compile", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", target.python, "--target", str(folder)]
    # Where a machine's pip usually installs (its variables, pip.conf) would go before the folder.
    command += ["--no-user", "--prefix=", "--root=/"]
    command += [f"--platform={name}" for name in PLATFORMS[target.architecture]]
    command += ["--requirement", str(requirements), *options]
    if find_spec("pip") is None:
        raise BuildFailed(NO_PIP)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise BuildFailed(f"pip could not install {requirements.name}: {run.stderr[-2000:]}")


def _constraints(folder: Path) -> Path:
    """Return a file with the lock's versions without their hashes: one hash in pip's input makes it require a
    hash for everything."""
    pinned = [line.rstrip(" \\") for line in LOCK.read_text().splitlines() if line[:1].strip()]
    plain = folder.with_name(f"{folder.name}.constraints")
    plain.write_text("\n".join(pinned))
    return plain


def _leave_out(folder: Path, installed: set[str]) -> None:
    """Remove the distributions of these names (`NAME-VERSION.dist-info`)."""
    for info in (path for path in folder.glob("*.dist-info") if path.name in installed):
        with (info / "RECORD").open(newline="") as record:
            files = [folder / row[0] for row in csv.reader(record) if row]
        for path in files:
            if path.resolve().is_relative_to(folder.resolve()):
                path.unlink(missing_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _prune(folder: Path) -> None:
    for pattern in (*RUBBISH, *UNUSED):
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for service in (folder / "botocore" / "data").glob("*"):
        # Clients take the newest version of an API unless they are told otherwise.
        for old in sorted(v for v in service.glob("*") if v.is_dir())[:-1]:
            shutil.rmtree(old)
    for plain in (folder / "botocore" / "data").rglob("*.json"):
        # As botocore ships most of them itself: it looks for both.
        plain.with_suffix(".json.gz").write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        plain.unlink()


# Bytecode

COLD_START = """
import sys, json, importlib
for name in {names}:
    importlib.import_module(name)
from layover.adapters.aws.sdk import client
import boto3, botocore.auth, botocore.signers, genai_prices.data, httpcore2, httpx2
import psycopg, psycopg.types, pgvector.psycopg, jsonschema
boto3.Session(region_name="eu-west-1").client("dynamodb", aws_access_key_id="a", aws_secret_access_key="b")
httpx2.AsyncClient()
json.dump(sorted(sys.modules), sys.stdout)
"""


def _loaded_by_cold_starts(target: Target) -> set[str]:
    """Return the names of the modules that any function loads before its first response, as this Python loads
    them, whose libraries come from the same lock. The functions are built before."""
    handlers = [f"{HANDLERS}.{name}.handler" for name in _function_names()]
    adapters = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in sorted((PACKAGE / "adapters").rglob("*.py"))
        if path.stem != "offline" and path.stem != "wordpiece"
    ]
    code = COLD_START.format(names=[*handlers, *adapters])
    run = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={"PYTHONPATH": f"{target.functions}:{PACKAGE.parent}", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise BuildFailed(f"the functions cannot be imported: {run.stderr[-2000:]}")
    return set(json.loads(run.stdout))


def _compile(target: Target, folder: Path, modules: set[str] | None) -> None:
    """Write bytecode next to the sources (`modules`: only of these modules, and of layover). Without a Python
    of the target's version there is none, because each version has its own format."""
    python = interpreter(target.python)
    if python is None:
        print(f"no Python {target.python} here: no bytecode, and cold starts take a second longer")
        return
    sources = sorted(p for p in folder.rglob("*.py") if modules is None or _hot(folder, p, modules))
    # One process and one order, so that the bytes depend on nothing else.
    code = (
        "import sys, py_compile as c\n"
        "mode = c.PycInvalidationMode.UNCHECKED_HASH\n"
        "for path in sys.stdin.read().splitlines():\n"
        "    c.compile(f'{sys.argv[1]}/{path}', dfile=path, invalidation_mode=mode, quiet=2)\n"
    )
    names = "\n".join(path.relative_to(folder).as_posix() for path in sources)
    subprocess.run([python, "-c", code, str(folder)], input=names, text=True, check=True)


def _hot(folder: Path, path: Path, modules: set[str]) -> bool:
    parts = path.relative_to(folder).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return name in modules or parts[0] == "layover"


def interpreter(version: str) -> str | None:
    """Return a Python of this version: this one, one on the path, or pyenv's."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = (sys.executable, shutil.which(f"python{version}"), *map(str, reversed(pyenv)))
    return next((path for path in candidates if path and _version(path) == version), None)


def _version(python: str) -> str:
    """Return the version that the Python itself reports: a name on the path may be a shim that leads
    nowhere."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return run.stdout.strip()


# Figures


def files_of(folder: Path) -> Iterator[Path]:
    """Yield every file below, in one order."""
    yield from sorted(path for path in folder.rglob("*") if path.is_file())


def size_mb(folder: Path) -> float:
    """Return the unzipped size."""
    return sum(path.stat().st_size for path in files_of(folder)) / 1e6


def content_hash(folder: Path, pattern: str = "*", *, compiled: bool = True) -> str:
    """Return a hash of names and contents. The CDK uploads a folder again when they change. `pattern`: of the
    files' names; `compiled`: False leaves out what Python has compiled."""
    digest = hashlib.sha256()
    for path in (each for each in files_of(folder) if each.match(pattern)):
        if not compiled and "__pycache__" in path.parts:
            continue
        inner = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {inner}\n".encode())
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m layover.desk.cdk.build", description=__doc__)
    parser.add_argument("--architecture", choices=sorted(PLATFORMS), default="arm64")
    parser.add_argument("--folder", type=Path, default=BUILD)
    options = parser.parse_args(arguments)
    target = Target(options.architecture, folder=options.folder)
    try:
        build(target)
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    for folder in (target.layer, target.functions):
        figures = f"{size_mb(folder):.1f} MB unzipped, {content_hash(folder)[:16]}"
        print(f"{folder.name}: {figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
