"""`layover redrive`: an operator drives a run on by hand."""

import http.server
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.desk.cli.tokens import TokenFile, Tokens
from support.providers.openai import Reply, call, fail, say
from support.system.system import LAYOVER, Brain, Caller, System, eventually, unique

LIMIT_S = 30.0


def redrive(run_id: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command, and return its output and exit code."""
    return subprocess.run(
        [LAYOVER, "redrive", run_id, *options],
        # A proxy that is nowhere: it is not for what is on this machine.
        env={**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": "", **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def one_line(told: subprocess.CompletedProcess[str]) -> str:
    """Its only line, on stderr."""
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    return line


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A server that is no Layover."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status = 503 if "down" in self.path else 200
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_run_that_is_not_mine_is_not_there(
    ann: Caller, bob: Caller, brain: Brain, system: System
) -> None:
    run = ann.start(ann.thread(), brain.plan(call("refund", order_id="o", amount=1), say("done")))
    told = redrive(run["id"], "--url", system.url, "--user", bob.name)
    assert (told.returncode, one_line(told)) == (1, f"layover: {run['id']}: {NOT_THERE}")
    never = redrive("run_0", "--url", system.url, "--user", ann.name)
    assert (never.returncode, one_line(never)) == (1, f"layover: run_0: {NOT_THERE}")


NOT_THERE = "there is no such run (404)"


def test_a_run_that_is_over_is_not_driven_on(ann: Caller, brain: Brain, system: System) -> None:
    run = ann.ask(ann.thread(), brain.plan(say("done")))
    told = redrive(run["id"], "--url", system.url, "--user", ann.name)
    assert told.returncode == 1
    assert one_line(told).endswith("the run is success: there is nothing to drive (409)")


def test_a_run_that_failed_goes_on_by_its_owner(ann: Caller, brain: Brain, system: System) -> None:
    steps: Iterator[Reply] = iter(
        [call("look_up", order_id="A-1"), fail(401), say("It works again.")]
    )
    run = ann.ask(ann.thread(), brain.mind(lambda _: next(steps), f"please {unique()}"))
    assert run["status"] == "failed"
    told = redrive(run["id"], "--url", system.url, "--token", f"dev:{ann.name}")
    assert told.returncode == 0, told.stderr
    over = ann.over(run["id"])
    assert (over["status"], over["text"], over["error"]) == ("success", "It works again.", None)
    assert [m["role"] for m in ann.messages(run["thread_id"])].count("tool") == 1
    types = [event["type"] for event in ann.events(run["id"])]
    assert (types.count("redriven"), types.count("finish"), "error" in types) == (1, 1, False)


def test_a_token_that_is_none_is_refused(system: System) -> None:
    told = redrive("run_1", "--url", system.url, "--token", "not-a-token")
    assert told.returncode == 1
    assert one_line(told).endswith("(401)")


def test_without_a_sign_in_somebody_has_to_be_named(tmp_path: Path) -> None:
    told = redrive("run_1", LAYOVER_TOKEN="", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert told.returncode == 2
    hint = "sign in first: layover login --url URL (the deployment's output ApiUrl)"
    assert one_line(told) == f"layover: run_1: {hint}"


def test_who_has_signed_in_is_asked_for_nothing(
    ann: Caller, brain: Brain, system: System, tmp_path: Path
) -> None:
    run = ann.ask(ann.thread(), brain.plan(say("done")))
    signed_in = Tokens(
        f"dev:{ann.name};scopes=operate", None, time.time() + 3600, "https://id.example", "people"
    )
    TokenFile(tmp_path / "layover").save(system.url, signed_in)
    told = redrive(run["id"], LAYOVER_TOKEN="", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert one_line(told).endswith("the run is success: there is nothing to drive (409)")


def test_the_owner_is_said_once() -> None:
    told = redrive("run_1", "--user", "ann", "--token", "t")
    assert told.returncode == 2
    assert "either --user NAME or --token TOKEN" in " ".join(told.stderr.split())


def test_an_api_that_is_not_there_may_be_tried_again() -> None:
    told = redrive("run_1", "--url", "http://127.0.0.1:9", "--user", "ann")
    assert told.returncode == 3
    assert one_line(told).startswith("layover: run_1: no answer from http://127.0.0.1:9: ")


def test_what_is_no_url_is_said(system: System) -> None:
    told = redrive("run_1", "--url", system.url.removeprefix("http://"), "--user", "ann")
    assert told.returncode == 2
    assert "write http://HOST or https://HOST" in one_line(told)


def test_another_server_is_not_taken_for_the_api(elsewhere: str) -> None:
    told = redrive("run_1", "--url", elsewhere, "--user", "ann")
    assert told.returncode == 3
    assert one_line(told).endswith("answers, but not as Layover does")
    down = redrive("down", "--url", elsewhere, LAYOVER_TOKEN="t")
    assert down.returncode == 3
    assert one_line(down).endswith("(503)")


def test_who_is_no_operator_drives_on_nothing_that_did_not_fail(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread(), brain.plan(call("refund", order_id=unique(), amount=1), say("ok")))
    told = redrive(run["id"], "--url", system.url, "--token", f"dev:{ann.name}")
    assert told.returncode == 1
    assert one_line(told).endswith("it needs `layover/operate` (403)")


def test_an_operator_drives_on_the_run_of_a_user_and_not_twice(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread(), brain.plan(call("refund", order_id=unique(), amount=1), say("ok")))
    token = ("--token", "dev:shop;scopes=operate,act-as", "--owner", ann.name)
    assert redrive(run["id"], "--url", system.url, *token).returncode == 0
    again = redrive(run["id"], "--url", system.url, *token)
    assert (again.returncode, "redriven less than 60 s ago" in one_line(again)) == (3, True)


def test_a_run_goes_on_in_a_fresh_execution(ann: Caller, brain: Brain, system: System) -> None:
    key = unique()
    run = ann.ask(
        ann.thread(), brain.plan(call("refund", order_id=key, amount=1), say("paid back"))
    )
    eventually(lambda: system.published(run["id"]))
    told = redrive(run["id"], "--url", system.url, "--user", ann.name)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"{run['id']}: suspended, a fresh execution drives it\n"
    # The call waits again, on a token of the new execution; the old one may do nothing more.
    eventually(lambda: system.published(run["id"]), lambda found: len(found) == 2)
    assert ann.decide(run["id"], run["pending"][0]["tool_call_id"], "approve").status == 202
    assert ann.over(run["id"])["text"] == "paid back"
    assert len(system.ledger(key)) == 1
    states = system.aws("stepfunctions")
    arn = system.services["state_machine_arn"].replace(":stateMachine:", ":execution:")
    second = f"{arn}:{run['id']}-2"
    eventually(
        lambda: states.describe_execution(executionArn=second)["status"],
        lambda status: status == "SUCCEEDED",
    )
