"""Commands of `layover` in this process. A start of Python takes half a second and more: of each command,
one test starts it, and the others call it."""

import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from layover.desk.cli import main
from layover.project import FILE


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


class Terminal(StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def call(
    folder: Path,
    *arguments: str,
    without: tuple[str, ...] = (),
    typed: str | None = None,
    **variables: str,
) -> Ended:
    """Run a command in a folder, as a pipeline does: without a terminal, unless a person has `typed`. It sees
    this environment but for the variables `without`, and leaves no module, variable or path behind."""
    output, errors, before = StringIO(), StringIO(), {*sys.modules}
    environment = {n: v for n, v in os.environ.items() if n not in without}
    code = 0
    with (
        chdir(folder),
        patch.dict(os.environ, {**environment, **variables}, clear=True),
        patch.object(sys, "path", [*sys.path]),
        patch.object(sys, "argv", ["layover", *arguments]),
        patch.object(sys, "stdin", StringIO() if typed is None else Terminal(typed)),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            main.run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    for name in sys.modules.keys() - before:
        if _is_of(folder, sys.modules[name]):
            del sys.modules[name]
    return Ended(code, output.getvalue(), errors.getvalue())


def _is_of(folder: Path, module: ModuleType) -> bool:
    """Return whether the module is of the project around the folder."""
    project = next((each for each in (folder, *folder.parents) if (each / FILE).exists()), folder)
    return Path(getattr(module, "__file__", None) or "/").is_relative_to(project)
