"""`layover ops`: an operator sees and steers runs of all users, on the real system."""

import json
import os
import re
import signal
import subprocess

from support.providers.openai import call, fail, say
from support.system.system import LAYOVER, Brain, Caller, Json, System, eventually, unique

LIMIT_S = 30.0


def ops(system: System, *words: str, user: str = "olga") -> subprocess.CompletedProcess[str]:
    """Run the command as this user of the machine."""
    return subprocess.run(
        [LAYOVER, "ops", *words, "--url", system.url, "--user", user],
        env={k: v for k, v in os.environ.items() if k != "LAYOVER_TOKEN"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def listed(system: System, *words: str) -> list[Json]:
    told = ops(system, "runs", "--json", *words)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


def waiting(user: Caller, brain: Brain) -> str:
    """A run that waits for a person."""
    script = brain.plan(call("refund", order_id="zebrawort", amount=1), say("done"))
    run = user.start(user.thread(), script)
    eventually(lambda: user.run(run["id"]), lambda run: run["status"] == "suspended")
    return str(run["id"])


def test_filter_and_run_that_are_not_there_are_refused_in_one_line(system: System) -> None:
    told = ops(system, "runs", "--status", "done")
    assert (told.returncode, told.stdout) == (1, "")
    assert len(told.stderr.splitlines()) == 1
    told = ops(system, "cancel", "run_0", "--reason", "x")
    assert (told.returncode, told.stderr) == (1, "layover: run_0: there is no such run (404)\n")


def test_operator_needs_a_reason_to_cancel(system: System) -> None:
    assert ops(system, "cancel", "run_0").returncode == 2


def test_runs_of_all_users_are_listed_shown_and_denied(
    ann: Caller, bob: Caller, brain: Brain, system: System
) -> None:
    anns, bobs = waiting(ann, brain), waiting(bob, brain)
    ids = [run["id"] for run in listed(system, "--status", "suspended", "--limit", "1000")]
    assert ids.index(bobs) < ids.index(anns)
    assert [run["id"] for run in listed(system, "--owner", ann.name)] == [anns]
    shown = ops(system, "show", anns)
    assert "refund: waiting" in shown.stdout
    assert "zebrawort" not in shown.stdout
    assert "zebrawort" in ops(system, "show", anns, "--content").stdout
    reason = unique("reason")
    told = ops(system, "deny", anns, bobs, "--reason", reason)
    assert (told.returncode, told.stderr) == (0, "")
    for user, run_id in ((ann, anns), (bob, bobs)):
        assert finished(user, run_id)["text"] == "done"
    # Both are over now, and listed as that.
    over = eventually(
        lambda: listed(system, "--owner", ann.name), lambda runs: runs[0]["status"] == "success"
    )
    assert [run["id"] for run in over] == [anns]
    again = ops(system, "deny", anns, "--reason", reason)
    assert again.returncode == 1
    rows = operations(system)
    assert {row["run_id"] for row in rows if row["reason"] == reason} == {anns, bobs}
    # What it says, and a prompt.
    assert [r["operation"] for r in rows if r["run_id"] == anns and not r["reason"]] == ["read"] * 2


def finished(user: Caller, run_id: str) -> Json:
    return eventually(lambda: user.run(run_id), lambda run: run["status"] == "success")


def operations(system: System) -> list[Json]:
    rows: list[Json] = []
    cursor: str | None = ""
    auditor = system.caller("tess;scopes=audit")
    while cursor is not None:
        page = auditor.call("GET", f"/audit/operations?limit=100{cursor}").body
        rows += page["items"]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    return rows


def test_failure_is_found_by_its_type_and_counted(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread(), brain.plan(fail(400, "no zebrawort")))
    assert run["status"] == "failed"
    kind = run["error"]["type"]
    found = eventually(
        lambda: listed(system, "--owner", ann.name, "--error", kind), lambda runs: bool(runs)
    )
    assert [each["id"] for each in found] == [run["id"]]
    told = ops(system, "summary")
    assert told.returncode == 0
    assert re.search(rf"{kind} of \w+, for example ", told.stdout)
    assert "zebrawort" not in told.stdout
    told = ops(system, "redrive", "--error", kind, "--agent", "nobody", "--since", "1h")
    assert (told.returncode, told.stdout) == (0, "no such runs failed\n")


def test_tail_prints_runs_as_they_end(ann: Caller, brain: Brain, system: System) -> None:
    words = ("tail", "--owner", ann.name, "--url", system.url, "--user", "olga")
    environment = {k: v for k, v in os.environ.items() if k != "LAYOVER_TOKEN"}
    with subprocess.Popen(
        [LAYOVER, "ops", *words], env=environment, stdout=subprocess.PIPE, text=True
    ) as tailing:
        assert tailing.stdout is not None
        try:
            run_id = ann.ask(ann.thread(), brain.plan(say("hello")))["id"]
            line = next(line for line in tailing.stdout if "success" in line)
            assert run_id in line
        finally:
            tailing.send_signal(signal.SIGINT)


def test_audit_names_who_decided_and_prints_csv(ann: Caller, brain: Brain, system: System) -> None:
    run_id = waiting(ann, brain)
    reason = unique("reason")
    assert ops(system, "deny", run_id, "--reason", reason).returncode == 0
    told = ops(system, "audit", "--run", run_id)
    assert "refund: denied by olga (api), " in told.stdout
    assert reason in told.stdout
    told = ops(system, "audit", "--run", run_id, "--csv")
    assert [line.count(run_id) for line in told.stdout.splitlines()] == [0, 1]
