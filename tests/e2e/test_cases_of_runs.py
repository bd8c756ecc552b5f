"""`layover eval add`: a run of a system becomes a case, which holds when it is played."""

import os
import subprocess
from pathlib import Path

from support.providers.openai import call, say
from support.system.system import LAYOVER, Brain, System, unique

LIMIT_S = 60.0
TESTS = Path(__file__).parents[1]
"""The agents are imported from here."""


def evals(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `layover eval` with these arguments, and return its output and exit code."""
    return subprocess.run(
        [LAYOVER, "eval", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_run_of_somebody_else_is_not_there(system: System, brain: Brain, tmp_path: Path) -> None:
    ada = system.caller("ada")
    run = ada.ask(ada.thread(), brain.plan(say("Hello.")))
    ended = evals(tmp_path, "add", run["id"], "--url", system.url, "--user", unique("eve"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"layover: {run['id']}: ")
    assert not list(tmp_path.iterdir())


def test_run_that_is_not_over_makes_no_case(system: System, brain: Brain, tmp_path: Path) -> None:
    ada = system.caller("ada")
    run = ada.ask(ada.thread(), brain.plan(call("refund", order_id="o1", amount=5)))
    ended = evals(tmp_path, "add", run["id"], "--url", system.url, "--user", "ada")
    assert ended.returncode == 2
    assert f"{run['id']} is suspended: a case needs a run that is over" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_file_that_cannot_take_a_case_stays_as_it_is(
    system: System, brain: Brain, tmp_path: Path
) -> None:
    ada = system.caller("ada")
    run = ada.ask(ada.thread(), brain.plan(say("Hello.")))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("agent: bücher".encode("latin-1"))
    for to, reason in [
        (latin, "is not UTF-8: save it as UTF-8"),
        (latin / "cases.yaml", "cannot be written"),
        (tmp_path, "cannot be read"),
    ]:
        ended = evals(
            tmp_path, "add", run["id"], "--url", system.url, "--user", "ada", "--to", str(to)
        )
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        assert ended.stderr.startswith(f"layover: {to} {reason}")
    assert latin.read_bytes() == "agent: bücher".encode("latin-1")
    assert list(tmp_path.iterdir()) == [latin]


def test_run_with_an_approval_is_a_case_that_holds(
    system: System, brain: Brain, tmp_path: Path
) -> None:
    ada, key = system.caller("ada"), unique("order")
    thread = ada.thread(metadata={"shop": 7})
    ada.ask(thread, brain.plan(say("Hello."), text="hi"))
    paying = brain.plan(
        call("look_up", key=key), call("refund", order_id=key, amount=5), say("It is settled.")
    )
    run = ada.ask(thread, paying)
    pending = run["pending"][0]["tool_call_id"]
    ada.want(202, "POST", f"/runs/{run['id']}/tool-calls/{pending}/approve", {"attempt": 1})
    ada.over(run["id"])
    assert [each["what"] for each in system.ledger(key)] == ["look_up", "refund"]
    opinion = {"score": -0.5, "comment": "it took\ntoo long"}
    ada.want(200, "POST", f"/runs/{run['id']}/feedback", opinion)
    agents = ("--agents", "support.agents")
    ended = evals(tmp_path, "add", run["id"], "--url", system.url, "--user", "ada", *agents)
    assert ended.returncode == 0, ended.stderr
    case = tmp_path / "evals" / "support.yaml"
    assert ended.stdout.startswith(f"{case}: [[plan")
    assert "which answered: It is settled." in case.read_text()
    assert "# Its owner gave it -0.5: it took too long\n" in case.read_text()
    played = evals(
        tmp_path, str(case), *agents, "--stubs-only", OPENAI_BASE_URL=brain.provider.base_url
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.startswith("held")
    # The stub answered, and nothing was paid again.
    assert [each["what"] for each in system.ledger(key)] == ["look_up", "refund"]
    other = brain.plan(call("refund", order_id=key, amount=6), say("It is settled."))
    case.write_text(case.read_text().replace(paying.split(" ")[0], other.split(" ")[0]))
    wrong = evals(
        tmp_path, str(case), *agents, "--stubs-only", OPENAI_BASE_URL=brain.provider.base_url
    )
    assert wrong.returncode == 1
    assert "no case expects it" in wrong.stdout or "approvals" in wrong.stdout
