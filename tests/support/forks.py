"""Code in processes that share their start: each is a fork of one that has imported what all of them need. A
start of Python that imports Layover takes a second, a fork of it a few milliseconds."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

ROOT = Path(__file__).parents[2]
PREAMBLE = """
import asyncio, jsonschema, psycopg, pydantic
from importlib import import_module
from layover import wiring
from layover.ahead import MODULES
for _name in {name for names in MODULES.values() for name in names}:
    import_module(_name)
"""
"""The modules that every invocation uses. A test that asks what a function does not import sees what these
would import, too."""
MAX_SECONDS = 120.0
# Of each line of its input, one fork is made. It leaves the loop, and ends as a process of its own does.
_SERVER = """
import json as _json, os as _os, sys as _sys
for _line in iter(_sys.stdin.readline, ""):
    _sys.stdout.flush()
    _child = _os.fork()
    if not _child:
        break
    print(_os.waitstatus_to_exitcode(_os.waitpid(_child, 0)[1]), flush=True)
else:
    _sys.exit()
_asked = _json.loads(_line)
for _number, _name in ((1, "stdout"), (2, "stderr")):
    _os.dup2(_os.open(_asked[_name], _os.O_WRONLY | _os.O_CREAT | _os.O_TRUNC), _number)
_os.environ.clear()
_os.environ.update(_asked["variables"])
exec(_asked["code"])
"""


@dataclass(frozen=True)
class Prepared:
    """A process that has run its preamble."""

    process: subprocess.Popen[str]
    variables: Mapping[str, str]
    folder: Path

    def run(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the code behind the preamble, in a fork that has these variables in addition."""
        output, errors = self.folder / "stdout", self.folder / "stderr"
        asked = {"code": code, "stdout": str(output), "stderr": str(errors)}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(
            json.dumps({**asked, "variables": {**self.variables, **variables}}),
            file=self.process.stdin,
            flush=True,
        )
        guard = Timer(MAX_SECONDS, self.process.kill)
        guard.start()
        code_of_exit = self.process.stdout.readline()
        guard.cancel()
        return subprocess.CompletedProcess(
            code, int(code_of_exit), output.read_text(), errors.read_text()
        )

    def printed(self, code: str, **variables: str) -> list[str]:
        """Return the lines that the code prints. It ends well, and without a word of an error."""
        run = self.run(code, **variables)
        assert (run.returncode, run.stderr) == (0, "")
        return run.stdout.splitlines()

    def last_line(self, code: str, **variables: str) -> Any:
        """Return the last line that the code prints, as JSON."""
        run = self.run(code, **variables)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout.splitlines()[-1])


@contextmanager
def prepared(preamble: str, **variables: str) -> Iterator[Prepared]:
    """A process with only these variables, for the length of the block. The preamble starts no thread."""
    with TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", f"{preamble}\n{_SERVER}"],
            env={**variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            yield Prepared(process, variables, Path(folder))


@contextmanager
def wired(**variables: str) -> Iterator[Prepared]:
    """A process with these variables and a region that has the modules of every invocation, and reaches the
    handlers."""
    paths = f"{ROOT}:{ROOT / 'layers/shared/python'}:{ROOT / 'functions'}"
    with prepared(PREAMBLE, PYTHONPATH=paths, AWS_REGION="eu-west-1", **variables) as process:
        yield process
