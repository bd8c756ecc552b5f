"""A file with a line for each run that has ended: an evaluation that was stopped goes on from it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError

from layover.declare.agent import Agent
from layover.declare.tools.delegate import with_handoffs
from layover.desk.evals.cases import Case
from layover.desk.evals.outcome import Outcome
from layover.desk.failures import CommandFailed
from layover.engine.definition import definition_of
from layover.values.base import Value, compact_json

Runs = Mapping[tuple[str, int], Outcome]
"""Runs by the name of the case and the number of the repeat."""

_BEGIN_ANEW = "begin anew with --runs and another file"


class RunsInvalid(CommandFailed):
    """The evaluation cannot go on from the file. The message says why, and what to do."""


class Setup(Value):
    """Everything besides the case that a result depends on, and that is not code. It is the file's first
    line. `definitions`: hashes of the agents by name."""

    layover_eval: Literal[1] = 1
    agent: str
    definitions: dict[str, str]
    model: str | None
    judges: tuple[str, ...]
    stubs_only: bool

    @classmethod
    def of(
        cls, agent: Agent, model: str | None, judges: Sequence[str], *, stubs_only: bool = False
    ) -> Self:
        """Return the setup of an evaluation of this agent."""
        return cls(
            agent=agent.name,
            definitions={n: definition_of(a) for n, a in with_handoffs([agent]).items()},
            model=model,
            judges=tuple(judges),
            stubs_only=stubs_only,
        )


class _Line(Value):
    """A run. `key`: the hash of its case."""

    key: str
    run: Outcome


class RunsFile:
    """The file of one evaluation. `earlier`: the runs that need not be made again. `changed`: names of cases
    that have runs there, but were changed since. `problem`: the reason for which runs are not in it."""

    def __init__(self, path: Path, keys: Mapping[str, str], earlier: Runs | None = None) -> None:
        self.path = path
        self.earlier: Runs = earlier or {}
        self.changed: tuple[str, ...] = ()
        self.problem: str | None = None
        self._keys = keys

    @classmethod
    def begin(cls, path: Path, setup: Setup, cases: Sequence[Case]) -> Self:
        """Return a new file. Raises RunsInvalid if there is one."""
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(compact_json(setup.model_dump(mode="json")) + "\n")
        except FileExistsError:
            raise RunsInvalid(
                f"{path} is there: --continue {path} goes on with it; or name another file"
            ) from None
        except OSError as error:
            raise RunsInvalid(f"{path} cannot be written: {error.strerror}") from error
        return cls(path, keys_of(cases))

    @classmethod
    def go_on(cls, path: Path, setup: Setup, cases: Sequence[Case], repeat: int) -> Self:
        """Return a file that is there, with its runs of these cases. A last line that is cut, as a process
        that dies leaves it, is removed. Raises RunsInvalid."""
        whole, is_cut = _whole_lines(path)
        if not whole:
            raise RunsInvalid(f"{path} has no whole line: remove it, and begin anew with --runs")
        _check(path, _setup_in(path, whole[0]), setup)
        lines = [_line(path, number, text) for number, text in enumerate(whole[1:], 2)]
        keys = keys_of(cases)
        earlier = {
            (line.run.case, line.run.repeat): line.run
            for line in lines
            if keys.get(line.run.case) == line.key and line.run.repeat <= repeat
        }
        names = {line.run.case for line in lines}
        if lines and not names & keys.keys():
            raise RunsInvalid(f"{path} has runs of other cases: {_BEGIN_ANEW}")
        if is_cut:
            _cut(path, whole)
        file = cls(path, keys, earlier)
        current = {line.run.case for line in lines if keys.get(line.run.case) == line.key}
        file.changed = tuple(name for name in keys if name in names - current)
        return file

    def add(self, outcome: Outcome) -> None:
        """Add a run that has ended. It never raises: what costs money goes on, and `problem` says what is
        missing."""
        line = _Line(key=self._keys[outcome.case], run=outcome)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(compact_json(line.model_dump(mode="json")) + "\n")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            self.problem = f"{self.path} does not have all runs: it could not be written: {why}"


def keys_of(cases: Sequence[Case]) -> dict[str, str]:
    """Return a hash of each case by its name: comments and the form of the file do not count."""
    texts = {
        case.name: compact_json(case.model_dump(mode="json", exclude_unset=True)) for case in cases
    }
    return {
        name: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        for name, text in texts.items()
    }


def _whole_lines(path: Path) -> tuple[list[str], bool]:
    """Return the lines that have an end, and whether a line without one follows them."""
    try:
        content = path.read_bytes()
        *whole, rest = content.decode(
            "utf-8", "strict" if content.endswith(b"\n") else "replace"
        ).split("\n")
    except OSError as error:
        raise RunsInvalid(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RunsInvalid(f"{path} is not a file that --runs writes: it is not UTF-8") from error
    return whole, bool(rest)


def _cut(path: Path, whole: Sequence[str]) -> None:
    size = sum(len(line.encode()) + 1 for line in whole)
    try:
        with path.open("r+b") as file:
            file.truncate(size)
    except OSError as error:
        raise RunsInvalid(f"{path} cannot be written: {error.strerror}") from error


def _setup_in(path: Path, text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or "layover_eval" not in value:
        raise RunsInvalid(
            f"{path} is not a file that --runs writes: name the one that you began with"
        )
    return value


def _check(path: Path, then: Mapping[str, Any], now: Setup) -> None:
    """Raise RunsInvalid if the runs were made in another way than those that would follow."""
    if then["layover_eval"] != now.layover_eval:
        raise RunsInvalid(f"{path} is of another release of Layover: {_BEGIN_ANEW}")
    for name, value in now.model_dump(mode="json").items():
        if then.get(name) == value:
            continue
        if name == "definitions":
            raise RunsInvalid(f"the definition of {now.agent} changed since {path}: {_BEGIN_ANEW}")
        raise RunsInvalid(
            f"{path} has `{name}` {_words(then.get(name))}, and this command {_words(value)}: name the same, "
            f"or {_BEGIN_ANEW}"
        )


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _line(path: Path, number: int, text: str) -> _Line:
    try:
        return _Line.model_validate_json(text)
    except ValidationError as error:
        raise RunsInvalid(
            f"{path}:{number}: this line is not a run: remove it, and its run is made again"
        ) from error
