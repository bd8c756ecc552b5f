"""Results of cases in a file of JSON lines, one for each case that was answered, written as it is answered.

A run that was interrupted goes on with the same file, and asks no case again whose result still says what is
measured now: the same case, prompt, model and embedder."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eval.scores import Score


@dataclass(frozen=True)
class Measured:
    """What a result is of. `case`: an id; `content`: the number of the case's content; `prompt`: the number
    of the task's prompt; `embedder`: "" for words only."""

    task: str
    case: str
    content: str
    prompt: str
    model: str
    embedder: str


@dataclass(frozen=True)
class Result:
    """A case's score. `code`: the number of the code that read the answers."""

    of: Measured
    score: Score
    set: str
    topic: str
    code: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        about = {"set": self.set, "topic": self.topic, "code": self.code}
        return {**asdict(self.of), **about, "score": self.score.to_json()}


class Results:
    """Results that a file has, and those that are added to it. `path` None: there is no file."""

    def __init__(self, path: Path | None) -> None:
        """Read the file. Raises OSError, and ValueError if it is not such a file."""
        self._path = path
        self._results = {r.of: r for r in _read(path)} if path and path.exists() else {}
        if path:
            # A folder that is missing is said now, not when the first case has been paid for.
            with path.open("a", encoding="utf-8") as file:
                if _is_torn(path):
                    file.write("\n")

    def get(self, of: Measured) -> Result | None:
        """Return the result of this; None if it is still to be measured."""
        return self._results.get(of)

    def add(self, result: Result) -> None:
        """Keep a result, on disk before it returns."""
        self._results[result.of] = result
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")


def _read(path: Path) -> Iterable[Result]:
    lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _result(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            # The process may have died while it wrote.
            if not _is_json(line):
                continue
            raise ValueError(f"{path}, line {number} is not a result of make eval") from error


def _result(value: Any) -> Result:
    of = Measured(**{name: value[name] for name in Measured.__dataclass_fields__})
    about = {name: value[name] for name in ("set", "topic", "code")}
    return Result(of, Score.of_json(value["score"]), **about)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return not line.startswith("{")
    return True


def _is_torn(path: Path) -> bool:
    text = path.read_bytes()
    return bool(text) and not text.endswith(b"\n")
