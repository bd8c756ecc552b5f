"""`layover doctor`: a line for each thing that has to work, and what is wrong with what does not."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from layover.local.client import ApiError
from layover.local.doctor import WAKING_S, Doctor

RUN = {"id": "run_1", "status": "success", "usage": {"total_tokens": 12, "cost_usd": 0.0004}}


@dataclass
class Clinic:
    """A deployment that answers as it is told. Time passes only in pauses."""

    token: bool = True
    ill: dict[str, list[ApiError]] = field(default_factory=dict)
    """Path -> what it answers before it is well."""
    runs: list[dict[str, Any]] = field(default_factory=lambda: [RUN])
    deleted: list[str] = field(default_factory=list)
    time: float = 0

    def get(self, path: str, **query: object) -> Any:
        """As `Api.get`."""
        self._fail(path)
        if path == "/agents":
            if not self.token:
                raise ApiError("send a token", 1, 401)
            return {"items": [{"name": "support"}]}
        return self._run() if path.startswith("/runs") else {"status": "ok"}

    def post(self, path: str, **body: object) -> Any:
        """As `Api.post`."""
        self._fail(path)
        if path == "/socket-tickets":
            return {"url": "wss://sockets.example/live?ticket=secret"}
        return self._run() if path.endswith("/runs") else {"id": "thr_1"}

    def delete(self, path: str) -> None:
        """As `Api.delete`."""
        self.deleted.append(path)

    def pause(self, seconds: float) -> None:
        """Time passes."""
        self.time += seconds

    def _run(self) -> dict[str, Any]:
        return self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]

    def _fail(self, path: str) -> None:
        if self.ill.get(path):
            raise self.ill[path].pop(0)


def examine(clinic: Clinic, *, open_doors: bool = False, run: bool = True) -> int:
    """The exit code."""
    stranger: Any = Clinic(token=open_doors)
    api: Any = clinic
    return Doctor(api, stranger, clinic.pause, lambda: clinic.time).examine(None, run=run)


def waking(times: int) -> dict[str, list[ApiError]]:
    """A database that is asleep for so many requests."""
    return {"/memory/profile": [ApiError("waking", 3, 503) for _ in range(times)]}


def test_api_that_answers_strangers_is_ill(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(), open_doors=True) == 1
    assert "FAIL  strangers" in capsys.readouterr().err


def test_first_failure_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    clinic = Clinic(ill={"/agents": [ApiError("the token lacks a scope (403)", 1, 403)]})
    assert examine(clinic) == 1
    said = capsys.readouterr()
    assert "FAIL  sign-in: the token lacks a scope" in said.err
    assert "database" not in said.out


def test_database_that_does_not_wake_is_ill(capsys: pytest.CaptureFixture[str]) -> None:
    clinic = Clinic(ill=waking(100))
    assert examine(clinic) == 3
    assert "FAIL  database" in capsys.readouterr().err
    assert WAKING_S <= clinic.time <= WAKING_S + 10


def test_run_that_fails_says_why_and_leaves_no_thread(capsys: pytest.CaptureFixture[str]) -> None:
    why = {"type": "ConfigurationError", "message": "put the key into SSM as /layover/dev/key"}
    clinic = Clinic(runs=[RUN | {"status": "running"}, RUN | {"status": "failed", "error": why}])
    assert examine(clinic) == 1
    assert "put the key into SSM" in capsys.readouterr().err
    assert clinic.deleted == ["/threads/thr_1"]


def test_database_that_wakes_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(ill=waking(3))) == 0
    assert "ok    database: answers after 15 s" in capsys.readouterr().out


def test_deployment_without_sockets_is_well() -> None:
    assert examine(Clinic(ill={"/socket-tickets": [ApiError("no such path", 1, 404)]})) == 0


def test_everything_that_is_well_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic()) == 0
    said = capsys.readouterr().out
    checked = [line.split()[1] for line in said.splitlines()]
    assert checked == ["health:", "strangers:", "sign-in:", "database:", "sockets:", "run:"]
    assert "12 tokens (0.000400 US dollars)" in said
    assert "secret" not in said


def test_nothing_is_spent_unless_a_run_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(Clinic(runs=[]), run=False) == 0
    assert "run" not in capsys.readouterr().out
