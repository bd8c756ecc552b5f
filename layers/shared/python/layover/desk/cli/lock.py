"""`layover lock`: one version of each package and the hashes of its files, for the project and for Lambda."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from layover.desk import shipped
from layover.desk.cdk import locks
from layover.desk.cdk.build import PLATFORMS, PYTHON
from layover.desk.cdk.distributions import LAYOVER
from layover.desk.cli.releases import pinned
from layover.desk.cli.uv import find_uv, variables
from layover.desk.failures import CommandFailed
from layover.project import Project

LIMIT_S = 600.0
"""Seconds in which uv has to choose all versions."""
FIRST_S = 20.0
"""The same for a new project, whose author waits and did not ask for a lock."""
MAKE = "`layover lock`"
MAKE_WITHOUT_UV = "`pip install uv && layover lock`"


@dataclass(frozen=True)
class Made:
    """A lock that was written. `path`: relative to the project."""

    path: str
    packages: int

    @property
    def words(self) -> str:
        """The line that tells of it."""
        return f"made  {self.path}: {self.packages} packages, by the hashes of their files"


@dataclass(frozen=True)
class _Request:
    """A process of uv. `until`: the end of its time, on the clock of `time.monotonic`."""

    uv: Sequence[str]
    root: Path
    until: float
    more: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def make(
    project: Project,
    more: Sequence[str] = (),
    *,
    limit_s: float = LIMIT_S,
    environment: Mapping[str, str] | None = None,
) -> list[Made]:
    """Write the locks of a project: all of them, or none.

    Args:
        project: The project.
        more: Further arguments of `uv pip compile`.
        limit_s: Seconds that it may take.
        environment: Of uv's processes; this one's and pip's indexes if not given.

    Raises CommandFailed if uv is missing, finds no versions or takes too long, and for a release of Layover
    that is not the pinned one: the versions of its layer are a part of the locks."""
    files = locks.requirements_of(project)
    if not files:
        raise CommandFailed(
            f"there is no {locks.REQUIREMENTS} in {project.root}: nothing to lock", 1
        )
    installed, pin = shipped.release(), pinned(project.root)
    if pin not in (None, installed):
        raise CommandFailed(
            f"{locks.REQUIREMENTS} pins {pin}, and {installed} is installed: "
            f"pip install -r {locks.REQUIREMENTS}, or pin {installed}",
            1,
        )
    uv = find_uv()
    if uv is None:
        raise CommandFailed(f"uv chooses the versions, and is not here: {MAKE_WITHOUT_UV}", 1)
    until = time.monotonic() + limit_s
    request = _Request(uv, project.root, until, more, environment or variables())
    with TemporaryDirectory() as place:
        texts = dict(_texts(files, request, Path(place)))
    return [_write(file, text, project.root) for file, text in texts.items()]


def first(project: Project, environment: Mapping[str, str] | None = None) -> list[str]:
    """Make the locks of a new project if uv is here and finds the versions soon. Return what to tell.
    `environment`: as for `make`."""
    if any(locks.lock_of(each).exists() for each in locks.requirements_of(project)):
        return []
    if find_uv() is None:
        return [f"lock  not made: {MAKE_WITHOUT_UV} pins each package by its hashes"]
    try:
        results = make(project, limit_s=FIRST_S, environment=environment)
    except CommandFailed:
        return [f"lock  not made: uv found no versions; {MAKE} says why"]
    return [each.words for each in results]


def check(project: Project) -> int:
    """Print each lock that does not fit, and return 1 if there is one, or no lock at all."""
    files = locks.requirements_of(project)
    wrong = [(each, why) for each in files if (why := locks.problem(each)) is not None]
    for file, why in wrong:
        path = file.relative_to(project.root).as_posix()
        print(f"layover: {path}: {why}: {MAKE}", file=sys.stderr)
    if not wrong:
        print("the locks fit")
    return int(bool(wrong))


def _texts(files: Sequence[Path], request: _Request, place: Path) -> Iterator[tuple[Path, str]]:
    """Yield the text of the lock of each file. The agents get the versions that the project has."""
    constraints = [str(shipped.SHIPPED.lock)]
    for number, file in enumerate(files):
        out = place / f"{number}.lock"
        lock = locks.lock_of(file)
        if lock.is_file():
            # uv keeps the versions that it finds there.
            out.write_bytes(lock.read_bytes())
        is_projects = file == request.root / locks.REQUIREMENTS
        target = _everywhere() if is_projects else _on_lambda()
        options = [*target, *(f"--constraint={each}" for each in constraints)]
        _compile(request, file, out, options)
        constraints.append(str(out))
        yield file, locks.head(file) + out.read_text("utf-8")


def _everywhere() -> list[str]:
    """Return options for every platform, and every Python that Layover runs on."""
    oldest = metadata.metadata(LAYOVER)["Requires-Python"].lstrip(">=")
    return ["--universal", "--python-version", oldest]


def _on_lambda() -> list[str]:
    """Return options for the functions, whose packages are wheels: nothing is compiled for them."""
    # uv has the machine in front.
    platform = f"aarch64-{PLATFORMS['arm64'][-1].removesuffix('_aarch64')}"
    return ["--python-version", PYTHON, "--python-platform", platform, "--only-binary", ":all:"]


def _compile(request: _Request, file: Path, out: Path, options: Sequence[str]) -> None:
    path = file.relative_to(request.root).as_posix()
    command = [*request.uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--generate-hashes", "--python", sys.executable, *options, *request.more]
    try:
        run = subprocess.run(
            [*command, path, "--output-file", str(out)],
            cwd=request.root,
            env=request.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=max(request.until - time.monotonic(), 0),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(
            f"uv has not found the versions of {path} in time: {MAKE}", 3
        ) from error
    if run.returncode:
        raise CommandFailed(f"{path} cannot be locked: {run.stderr.strip()[-2000:]}", 1)


def _write(file: Path, text: str, root: Path) -> Made:
    lock = locks.lock_of(file)
    fresh = lock.with_name(f"{lock.name}.new")
    try:
        fresh.write_text(text, "utf-8", newline="\n")
        fresh.replace(lock)
    except OSError as error:
        raise CommandFailed(f"{lock} cannot be written: {error.strerror}", 1) from error
    count = sum(line[:1].isalnum() for line in text.splitlines())
    return Made(lock.relative_to(root).as_posix(), count)
