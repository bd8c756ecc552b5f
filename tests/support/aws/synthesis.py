"""All forms of the deployment, synthesized once for each content of the checkout.

The first form takes 12 s of a calm machine, each further one of the same process 2 s. What they leave is kept
in `build/templates` under a hash of all that they are made from, for other workers and for later runs."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from support.aws.forms import FORMS, GIVEN
from support.aws.templates import Synthesized
from support.locks import locked

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "build" / "templates"
MADE_FROM = (
    "infra",
    "layers",
    "cdk.json",
    "requirements/test.lock",
    "tests/support/aws",
    "docs/reference/construct.md",
)
MAX_AGE_S = 86_400.0
QUIET = {
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
}
MAX_SYNTHESIS_S = 240
OUTPUT = "output.txt"
"""The app's output. It is written last, so a folder that has it is complete."""


def synthesized(form: str) -> Synthesized:
    """This form of the deployment. Fails with what the app printed, for whichever form it was."""
    folder = KEPT / content()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not (folder / OUTPUT).exists():
            (folder / OUTPUT).write_text(synthesize(folder, FORMS))
            _forget_old()
    return Synthesized(folder / form, (folder / OUTPUT).read_text())


@cache
def content() -> str:
    """A hash of every file that a template is made from."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(_files()):
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for name in MADE_FROM:
        path = ROOT / name
        found = path.rglob("*") if path.is_dir() else [path]
        yield from (f for f in found if f.is_file() and "__pycache__" not in f.parts)


def synthesize(
    folder: Path, forms: Mapping[str, Mapping[str, str]], within_s: float = MAX_SYNTHESIS_S
) -> str:
    """Have a separate process synthesize these forms, each in a folder of its name. Return its output, with
    which it fails if a rule is broken."""
    (folder / GIVEN).write_text(json.dumps(forms))
    return _run("support.aws.synthesize", folder, _built(), within_s)


def _built() -> Path:
    """The folders that stand for what a build makes."""
    built = KEPT / "built"
    for name in ("layer", "functions"):
        (built / name).mkdir(parents=True, exist_ok=True)
        (built / name / "stands_for_the_build.py").touch()
    (built / "layer" / "certificates").mkdir(exist_ok=True)
    (built / "layer" / "certificates" / "rds.pem").touch()
    return built


def own_apps() -> Path:
    """The folder of the apps of projects of one's own (`support.aws.own_apps`), each synthesized into a
    folder of its name."""
    folder = KEPT / content() / "own"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not (folder / OUTPUT).exists():
            said = _run("support.aws.own_apps", folder, _built(), MAX_SYNTHESIS_S)
            (folder / OUTPUT).write_text(said)
    return folder


def _run(module: str, folder: Path, built: Path, within_s: float) -> str:
    # No credentials, no region, no proxy, no home with a configuration.
    paths = f"{ROOT}:{ROOT / 'tests'}"
    offline = {"PATH": os.environ["PATH"], "HOME": str(built), "PYTHONPATH": paths, **QUIET}
    run = subprocess.run(
        [sys.executable, "-m", module, str(folder), str(built)],
        cwd=ROOT,
        env=offline,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-6000:]
    return run.stdout + run.stderr


def _forget_old() -> None:
    """Remove what other contents of the checkout left long ago."""
    for folder in KEPT.glob("?" * len(content())):
        is_old = time.time() - folder.stat().st_mtime > MAX_AGE_S
        if folder.is_dir() and is_old and not folder.name.startswith(content()):
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)
