"""The failure of a command, in the words of whoever has to do something about it."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from layover.values.text import reveal

P = ParamSpec("P")


class CommandFailed(Exception):
    """A command cannot go on. The message says why, and what to do; `exit_code`: of the process."""

    exit_code = 2

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


def report_failure(command: Callable[P, int]) -> Callable[P, int]:
    """Return the command, which prints the failure that ends it, and returns its exit code."""

    @wraps(command)
    def report(*args: P.args, **options: P.kwargs) -> int:
        try:
            return command(*args, **options)
        except CommandFailed as error:
            print(f"layover: {reveal(str(error))}", file=sys.stderr)
            return error.exit_code

    return report
