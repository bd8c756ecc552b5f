"""Output of `make dev` about runs, the model and what was saved."""

import asyncio
import json
import os
import shlex
import socket
import threading
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from layover.desk.cli.evals import add_variables
from layover.desk.local.agents_module import LoadReport
from layover.desk.local.development import Reloader, problems_of
from layover.desk.local.functions.log_lines import format_entry
from layover.desk.local.runner import model_notice
from layover.desk.local.serve import variables_of
from layover.desk.local.sources import Sources
from layover.desk.local.terminal.lines import RunLines
from layover.desk.local.terminal.show import RunWatch, say
from support.providers.openai import FakeOpenAI

OUTCOME = {
    "usage": {"total_tokens": 340, "cost_usd": "0.0004"},
    "error": None,
}


def meta(status: str, outcome: Any = None, **more: str) -> dict[str, Any]:
    """A run's META as DynamoDB has it."""
    texts = {"id": "run_1", "owner": "ann", "thread_id": "thread_1", "agent": "shop"}
    times = {
        "created_at": "2026-01-01T10:00:00.000000Z",
        "updated_at": "2026-01-01T10:00:03.200000Z",
    }
    item: dict[str, Any] = {k: {"S": v} for k, v in {**texts, **times, **more}.items()}
    item |= {
        "pk": {"S": "p"},
        "sk": {"S": "META"},
        "status": {"S": status},
        "step_ended": {"N": "2"},
    }
    return item if outcome is None else {**item, "outcome": outcome}


class Told:
    """Lines, with their colours."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.watch = RunWatch(RunLines(lambda: "http://here", self.say))

    def say(self, text: str, colour: str) -> None:
        self.lines.append((text, colour))


@pytest.fixture
def told() -> Told:
    return Told()


def asked(**more: Any) -> dict[str, Any]:
    """The event of a call that waits, as a plain `needs_approval=True` sends it."""
    detail = {"run_id": "run_1", "agent": "shop", "tool_call_id": "c1", "tool_name": "refund"}
    whole = {
        **detail,
        "attempt": 1,
        "kind": "approval",
        "args": {"amount": 60},
        "approval": None,
        **more,
    }
    return {"detail_type": "ApprovalRequested", "detail": whole}


def rule(**more: Any) -> dict[str, Any]:
    """An approval's rule in an event."""
    plain = {"requester": False, "quorum": 1, "reason_required": False}
    return {"by": ["finance", "ops"], **plain, **more}


@pytest.mark.parametrize("packed", [False, True], ids=["text", "compressed"])
def test_a_run_that_is_over_is_one_line_once(told: Told, packed: bool) -> None:
    text = json.dumps(OUTCOME)
    outcome = {"B": b64encode(zlib.compress(text.encode())).decode()} if packed else {"S": text}
    running, over = meta("running"), meta("success", outcome)
    told.watch.on_item(None, running)
    told.watch.on_item(running, over)
    told.watch.on_item(over, over)
    line = "shop success  thread_1 run_1  2 steps, 340 tokens, $0.0004, 3.2 s"
    assert told.lines == [(line, "green")]


def test_a_run_that_failed_says_why_and_an_unknown_price_is_said(told: Told) -> None:
    outcome = {
        "usage": {"total_tokens": 1, "cost_usd": None},
        "error": {"type": "E", "message": "no"},
    }
    told.watch.on_item(meta("running"), meta("failed", {"S": json.dumps(outcome)}))
    ((text, colour),) = told.lines
    assert text.endswith("1 tokens, cost unknown, 3.2 s\n    E: no")
    assert colour == "red"


def test_items_that_are_no_runs_are_not_spoken_of(told: Told) -> None:
    for item in ({"sk": {"S": "HEAD"}, "status": {"S": "success"}}, {"sk": {"S": "META"}}, None):
        told.watch.on_item(None, item)
    assert told.lines == []


def test_a_call_that_waits_is_shown_with_the_line_that_decides_it(told: Told) -> None:
    told.watch.on_item(None, meta("running"))
    told.watch.on_event(asked())
    ((text, _),) = told.lines
    assert text == (
        'shop waits for approval: refund {"amount": 60}\n'
        "    approve it (/deny instead of /approve denies it), or decide in the console:\n"
        "    curl -s http://here/runs/run_1/tool-calls/c1/approve "
        "-H 'Authorization: Bearer dev:ann' -d '{\"attempt\": 1}'"
    )


def test_a_reminder_is_shown_with_its_number_and_the_line_that_decides_the_call(
    told: Told,
) -> None:
    told.watch.on_item(None, meta("running"))
    told.watch.on_event({**asked(n=2), "detail_type": "ApprovalReminder"})
    ((text, _),) = told.lines
    assert text.startswith("reminder 2: shop waits for approval: refund ")
    assert "/approve" in text.splitlines()[-1]


def test_an_escalation_names_the_groups_that_may_decide_now(told: Told) -> None:
    told.watch.on_item(None, meta("running"))
    event = asked(to=["board", "audit"], approval=rule(by=["finance", "board", "audit"]))
    told.watch.on_event({**event, "detail_type": "ApprovalEscalated"})
    ((text, _),) = told.lines
    assert text.startswith("escalated to board and audit: shop waits for approval: refund ")
    assert "1 of finance or board or audit approves it" in text


def test_a_call_that_waits_is_shown_with_what_its_tool_says_about_it(told: Told) -> None:
    told.watch.on_item(None, meta("running"))
    said = {"summary": "Refund 60.00 euros", "risk": "high", "asked_again": "definition"}
    told.watch.on_event(asked(**said))
    ((text, _),) = told.lines
    assert text.splitlines()[1:3] == [
        "    Refund 60.00 euros (high risk)",
        "    it was approved before, and new code changed its arguments",
    ]


def test_a_call_that_waits_is_shown_with_what_was_denied_before(told: Told) -> None:
    told.watch.on_item(None, meta("running"))
    before = [
        {"args": {"amount": 50}, "reason": "a voucher", "decided_by": "bea", "at": "2026"},
        {"args": {"amount": 40}, "reason": None, "decided_by": "x", "on_behalf_of": "ann"},
    ]
    told.watch.on_event(asked(denied_before=before))
    told.watch.on_event(asked(denied_before=None, args=None, truncated=True))
    ((text, _), (truncated, _)) = told.lines
    assert text.splitlines()[1:3] == [
        '    bea denied {"amount": 50} before: "a voucher"',
        '    ann denied {"amount": 40} before',
    ]
    assert "before" not in truncated


@pytest.mark.parametrize(
    ("owner", "approval", "deciders", "how"),
    [
        ("ann", rule(), ["approver"], "1 of finance or ops approves it, who must not be ann:"),
        (
            "approver",
            rule(),
            ["approver-2"],
            "1 of finance or ops approves it, who must not be approver:",
        ),
        ("ann", rule(requester=True), ["ann"], "1 of finance or ops approves it:"),
        (
            "ann",
            rule(quorum=2),
            ["approver", "approver-2"],
            "2 of finance or ops approve it, who must not be ann:",
        ),
        (
            "ann",
            rule(quorum=2, requester=True),
            ["ann", "approver"],
            "2 of finance or ops approve it:",
        ),
    ],
)
def test_a_line_for_each_person_speaks_for_one_who_may_decide(
    told: Told, owner: str, approval: dict[str, Any], deciders: list[str], how: str
) -> None:
    told.watch.on_item(None, meta("running", owner=owner))
    told.watch.on_event(asked(approval=approval))
    _, first, *commands = told.lines[0][0].splitlines()
    assert first.strip() == how
    assert [shlex.split(c)[4] for c in commands] == [
        f"Authorization: Bearer dev:{who};groups=finance" for who in deciders
    ]


def test_a_line_is_safe_in_a_shell(told: Told) -> None:
    told.watch.on_item(None, meta("running", owner="o'hara"))
    told.watch.on_event(asked())
    assert "Authorization: Bearer dev:o'hara" in shlex.split(told.lines[0][0].splitlines()[-1])


def test_a_reason_that_is_required_is_in_the_line(told: Told) -> None:
    told.watch.on_item(None, meta("running"))
    told.watch.on_event(asked(approval=rule(reason_required=True)))
    assert told.lines[0][0].endswith("""-d '{"attempt": 1, "reason": "..."}'""")


def test_a_call_that_waits_for_input_shows_its_payload_and_the_form(told: Told) -> None:
    slot = {"type": "object", "properties": {"slot": {"type": "string"}}, "required": ["slot"]}
    told.watch.on_item(None, meta("running"))
    told.watch.on_event(asked(kind="input", payload={"slots": ["18:00"]}, resume_schema=slot))
    assert told.lines[0][0] == (
        'shop waits for input: refund {"amount": 60}\n'
        '    it shows {"slots": ["18:00"]}\n'
        "    fill it in and send it (to /deny without `data` declines to answer), or answer in the console:\n"
        "    curl -s http://here/runs/run_1/tool-calls/c1/resume "
        """-H 'Authorization: Bearer dev:ann' -d '{"attempt": 1, "data": {"slot": "..."}}'"""
    )


def test_call_that_waits_for_an_account_says_how_to_connect_it_or_to_do_without(told: Told) -> None:
    told.watch.on_item(None, meta("running"))
    wants = {"connection": "github", "scopes": ["repo"]}
    told.watch.on_event(asked(kind="connect", payload=wants, resume_schema={}))
    assert told.lines[0][0] == (
        'shop waits for the github account of ann: refund {"amount": 60}\n'
        "    connect it in the console, or go on without it:\n"
        "    curl -s http://here/runs/run_1/tool-calls/c1/deny "
        """-H 'Authorization: Bearer dev:ann' -d '{\"attempt\": 1}'"""
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"args": None},
        {"args": {"memo": "x" * 1_000, "amount": 60}},
        {"kind": "input", "payload": {"question": "x" * 1_000}},
    ],
)
def test_a_call_that_is_not_shown_whole_has_no_command(told: Told, fields: Any) -> None:
    told.watch.on_item(None, meta("running"))
    told.watch.on_event(asked(**fields))
    assert told.lines[0][0].endswith("not all of it fits here: decide it at http://here")
    assert "curl" not in told.lines[0][0]


def test_what_cannot_be_seen_is_shown_and_moves_no_cursor(
    told: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    told.watch.on_item(None, meta("running"))
    told.watch.on_event(asked(tool_name="re\x1b[2Kfund", args={"to": "\x9b1A\u202e"}))
    say(*told.lines[0])
    first = capsys.readouterr().err.splitlines()[0]
    assert first == 'shop waits for approval: re‹U+001B›[2Kfund {"to": "‹U+009B›1A‹U+202E›"}'


def test_what_waits_since_before_the_start_is_shown_again_once(told: Told) -> None:
    events = [asked(), asked(), asked(run_id="run_2"), {"detail_type": "Other", "detail": None}]
    told.watch.resume({"run_1": "ann"}, events)
    assert len(told.lines) == 1


def test_of_many_calls_that_wait_the_newest_are_shown_and_the_others_counted(told: Told) -> None:
    events = [asked(run_id=f"run_{n}", tool_name=f"tool_{n}") for n in range(122)]
    # A reminder makes an old call the newest.
    events.append(
        {**asked(run_id="run_0", tool_name="tool_0", n=1), "detail_type": "ApprovalReminder"}
    )
    told.watch.resume({f"run_{n}": "ann" for n in range(122)}, events)
    (first, _), *others = told.lines
    assert first == "117 other calls wait since before the start: decide them at http://here"
    shown = [line.splitlines()[0] for line, _ in others]
    assert len(shown) == 5
    assert "tool_118" in shown[0]
    assert "tool_0" in shown[-1]


def test_a_single_other_call_is_counted_as_one(told: Told) -> None:
    events = [asked(run_id=f"run_{n}") for n in range(6)]
    told.watch.resume({f"run_{n}": "ann" for n in range(6)}, events)
    assert told.lines[0][0].startswith("1 other call waits since")


def test_a_tool_error_is_shown_with_the_lines_of_its_source(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("def pay():\n    raise KeyError('x')\n")
    entry = {"level": "WARNING", "message": "tool pay failed", "where": [f"{file}:2 pay"]}
    shown = format_entry("turn", json.dumps(entry).encode())
    assert shown is not None
    assert shown.text == (
        f"warning turn: tool pay failed\n    {file}:2 pay\n        raise KeyError('x')"
    )


async def test_a_model_that_does_not_answer_is_said() -> None:
    # Port 9 of this machine: nothing listens there.
    (problem,) = await problems_of({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, [])
    assert "no model answers at http://127.0.0.1:9/v1" in problem


class Silent(SimpleHTTPRequestHandler):
    """Serves files as a provider that lists its models would."""

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("opnai/gpt-5", "opnai/gpt-5 (no provider 'opnai': did you mean 'openai'?)"),
        ("openai/gtp-5-mini", "gtp-5-mini (did you mean 'gpt-5-mini'?)"),
        ("anthropic/zzz", "anthropic/zzz"),
    ],
)
async def test_a_mistyped_model_is_said_with_the_nearest(
    model: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "models").write_text('{"data": [{"id": "gpt-5-mini"}, {"id": "o9"}]}')
    handler = partial(Silent, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        given = {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}"}
        (problem,) = await problems_of(given, [model])
        server.shutdown()
        thread.join()
    assert f" does not list {meant}: check LAYOVER_MODEL" in problem


async def test_a_provider_that_lists_no_models_is_no_problem() -> None:
    with FakeOpenAI() as provider:
        given = {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "k"}
        assert await problems_of(given, ["openai/any"]) == []


class ModelServer(BaseHTTPRequestHandler):
    """Answers `GET /models` with what the class says, and remembers what it was asked with."""

    status = 200
    models: tuple[dict[str, str], ...] = ({"id": "qwen2.5:7b"}, {"id": "llama3:latest"})
    keys: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.keys.append(self.headers["Authorization"])
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps({"data": self.models}).encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def model_server(**changes: Any) -> Iterator[tuple[str, list[str | None]]]:
    """The address of a server, and the keys that it was asked with."""
    handler: Any = type("Handler", (ModelServer,), {"keys": [], **changes})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", handler.keys
        finally:
            server.shutdown()
            thread.join()


def providers(**urls: str) -> dict[str, str]:
    addresses = {
        name: {"base_url": url, "api_key_env": f"{name.upper()}_KEY"} for name, url in urls.items()
    }
    return {"LAYOVER_PROVIDERS": json.dumps(addresses)}


async def test_each_provider_is_asked_for_its_own_models_with_its_own_key() -> None:
    with model_server() as (ollama, keys), model_server() as (other, other_keys):
        given = {**providers(ollama=ollama, other=other), "OLLAMA_KEY": "sk-o", "OTHER_KEY": "sk-x"}
        problems = await problems_of(given, ["ollama/qwen2.5:7b", "other/qwen2.5:7b"])
        assert problems == []
        assert (keys, other_keys) == (["Bearer sk-o"], ["Bearer sk-x"])


async def test_provider_that_lacks_a_model_is_said_in_one_line_without_a_key() -> None:
    with model_server() as (url, _):
        given = {**providers(ollama=url), "OLLAMA_KEY": "sk-secret"}
        (problem,) = await problems_of(given, ["ollama/qwen2.5:70b", "gpt-5-mini"])
    assert f"{url} (LAYOVER_PROVIDERS: ollama) does not list qwen2.5:70b" in problem
    assert "did you mean 'qwen2.5:7b'?" in problem
    assert "\n" not in problem
    assert "sk-secret" not in problem


async def test_provider_that_cannot_be_reached_is_said_and_the_others_are_asked() -> None:
    with model_server() as (url, _):
        given = {**providers(dead="http://127.0.0.1:9/v1"), "OPENAI_BASE_URL": url}
        problems = await problems_of(given, ["dead/any", "nothing-like-it"])
    assert len(problems) == 2
    assert f"{url} does not list nothing-like-it" in problems[0]
    where = "http://127.0.0.1:9/v1 (LAYOVER_PROVIDERS: dead)"
    assert problems[1] == f"no model answers at {where} (ConnectError): check LAYOVER_PROVIDERS"


async def test_name_and_password_in_an_address_are_not_said() -> None:
    given = {"OPENAI_BASE_URL": "http://ann:hunter2@127.0.0.1:9/v1?key=sk-1"}
    (problem,) = await problems_of(given, [])
    assert "no model answers at http://127.0.0.1:9/v1 (" in problem
    assert not any(secret in problem for secret in ("hunter2", "ann", "sk-1"))


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ({}, "llama3"),
        ({"models": ({"id": "any.gguf", "owned_by": "llamacpp"},)}, "qwen"),
        ({"status": 404}, "qwen"),
    ],
    ids=["Ollama's latest", "llama.cpp takes any name", "no list"],
)
async def test_name_that_the_server_would_take_is_no_problem(
    changes: dict[str, Any], model: str
) -> None:
    with model_server(**changes) as (url, _):
        assert await problems_of({"OPENAI_BASE_URL": url}, [model]) == []


async def test_server_that_is_not_ready_is_said() -> None:
    with model_server(status=503) as (url, _):
        (problem,) = await problems_of({"OPENAI_BASE_URL": url}, ["qwen"])
    assert problem == f"{url} answers 503: look at its log, it may still load its model"


async def test_server_that_takes_and_never_answers_is_said_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("layover.desk.local.development._CHECK_LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        (problem,) = await problems_of({"OPENAI_BASE_URL": url}, ["qwen"])
    assert f"no model answers at {url} (TimeoutError)" in problem


@pytest.mark.parametrize(
    "given",
    [
        {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k\u00e9y\n"},
        {"OPENAI_BASE_URL": "nowhere"},
        {"OPENAI_BASE_URL": "http://[::1/v1"},
        {"LAYOVER_PROVIDERS": "{"},
        {"LAYOVER_PROVIDERS": "[]"},
    ],
)
async def test_variables_that_make_no_sense_are_no_error(given: dict[str, str]) -> None:
    problems = await problems_of(given, ["qwen"])
    assert not any(given.get("OPENAI_API_KEY", "k\u00e9") in each for each in problems)


async def test_proxy_sees_nothing_of_a_server_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with model_server() as (proxy, keys), model_server() as (url, _):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert await problems_of({"OPENAI_BASE_URL": url}, ["llama3"]) == []
        assert keys == []


def test_dotenv_adds_what_the_environment_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_ALREADY", "outside")
    text = "# a comment\nSET_ALREADY=inside\nexport NEW_ONE='a b'\nWITHOUT\nRAW=$HOME\n"
    (tmp_path / ".env").write_text(text)
    found = variables_of(tmp_path)
    assert (found["SET_ALREADY"], found["NEW_ONE"], found["RAW"]) == ("outside", "a b", "$HOME")
    assert "WITHOUT" not in found


@pytest.mark.parametrize(("mine", "found"), [("", "file"), ("none", "none")])
def test_variable_without_a_value_is_not_set(
    mine: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one of the file hides nothing either, and commands that run agents here see the same."""
    for name, value in (("OURS", mine), ("THEIRS", "x")):
        monkeypatch.setenv(name, value)
    (tmp_path / ".env").write_text("OURS=file\nTHEIRS=\n")
    add_variables(tmp_path)
    assert (os.environ["OURS"], os.environ["THEIRS"]) == (found, "x")


class Functions:
    """Stands for the Lambda service."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, bool]] = []

    def change(self, variables: dict[str, str], *, renew: bool) -> None:
        self.changes.append((variables["PYTHONPATH"], renew))

    def prewarm(self, *names: str) -> None:
        return


@pytest.mark.parametrize("kind", ["package", "module"])
async def test_a_broken_save_keeps_the_last_good_one_and_the_next_good_one_replaces_it(
    tmp_path: Path, kind: str, told: Told
) -> None:
    file = tmp_path / ("mine/__init__.py" if kind == "package" else "mine.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text("good = 1\n")
    sources = Sources("mine", [tmp_path], tmp_path / "copy")
    sources.keep()
    functions: Any = Functions()
    answers = [
        LoadReport(problem="mine.py:1: SyntaxError"),
        LoadReport(agents=("agent shop: price",)),
    ]

    async def load() -> LoadReport:
        return answers.pop(0)

    reloader = Reloader(sources, load, functions, "/path", told.say)
    assert not sources.has_changed()
    file.write_text("broken = (\n")
    assert sources.has_changed()
    await reloader.reload()
    copy = sources.copy_path / file.relative_to(tmp_path)
    assert await asyncio.to_thread(copy.read_text) == "good = 1\n"
    file.write_text("better = 2\n")
    assert sources.has_changed()
    await reloader.reload()
    assert await asyncio.to_thread(copy.read_text) == "better = 2\n"
    assert functions.changes == [(f"{tmp_path / 'copy'}:/path", False), ("/path", True)]
    assert [colour for _, colour in told.lines] == ["red", "green"]
    assert "mine.py:1: SyntaxError" in told.lines[0][0]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "openai/gpt-5-mini answers"),
        ({"LAYOVER_MODEL": "openai/gpt-5"}, "openai/gpt-5 answers"),
        (
            {
                "LAYOVER_MODEL": "qwen/q3",
                "OPENAI_BASE_URL": "http://ann:secret@[::1]:8080/v1?k=secret",
            },
            "qwen/q3 at [::1]:8080 answers",
        ),
        (
            {
                "LAYOVER_MODEL": "groq/q3",
                "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
                "LAYOVER_PROVIDERS": '{"groq": {"base_url": "https://api.groq.example"}}',
            },
            "groq/q3 answers",
        ),
        (
            {"LAYOVER_MODEL": "bedrock/nova", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
            "bedrock/nova answers",
        ),
        (
            {
                "LAYOVER_MODEL": "anthropic/claude-sonnet-4-5",
                "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
                "ANTHROPIC_API_KEY": "secret",
            },
            "anthropic/claude-sonnet-4-5 answers",
        ),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "LAYOVER_PROVIDERS": "no JSON"},
            "openai/gpt-5-mini at 127.0.0.1:1 answers",
        ),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "LAYOVER_PROVIDERS": "[1]"},
            "openai/gpt-5-mini at 127.0.0.1:1 answers",
        ),
    ],
)
def test_model_that_answers_is_named_with_its_place_and_no_secret(
    variables: dict[str, str], told: str
) -> None:
    assert model_notice(variables) == f"model: {told} for agents that name none"
