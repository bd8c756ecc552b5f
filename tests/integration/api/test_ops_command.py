"""`layover ops` against the API: what it prints, what it asks first, and what it leaves undone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from integration.api.at_url import at_url
from layover import Agent, ModelSettings, tool
from layover.adapters.journal.allowance import TableAllowance
from layover.adapters.journal.journal import table_journal
from layover.desk.cli.client import Api, ApiError
from layover.desk.cli.ops.asking import moment_of
from layover.desk.cli.ops.audit import Request, audit
from layover.desk.cli.ops.runs import waits_of
from layover.desk.cli.ops.tail import Watch, tail
from layover.desk.cli.ops.try_step import Request as StepRequest
from layover.desk.cli.ops.try_step import try_step
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import ScriptedModel
from layover.inmemory.table import InMemoryTable
from layover.plugins.operate.views import prompt_view
from layover.testing import call, fail, say
from layover.values.prompt import OutputSpec, Prompt, ProviderTool, ToolSpec
from support.commands import Ended
from support.commands import call as run_command
from support.worlds.driven import Driven

WORD = "zebrawort"
"""Stands in every text that somebody said."""
OWN_MODEL = """
from layover import Agent
from layover.models import Reply

class Own:
    name = "own/model"

    async def complete(self, prompt, on_delta=None):
        return Reply(text="own words")

support = Agent("support", model=Own())
"""
WHAT_IS_SENT = {"model", "system", "tools", "output", "settings", "api", "provider_tools"}
REFUSAL = fail(f"{WORD}: no", status=401)


@tool(needs_approval=True)
def refund(order_id: str, amount: float) -> str:
    """Pay back."""
    return f"{order_id}: {amount}"


SUPPORT = Agent(
    name="support",
    model="openai/m",
    instructions="Help with zebras.",
    tools=[refund],
    model_settings=ModelSettings(max_tokens=500),
)
AWAY = fail("overloaded", status=503, passes=True)


class Switchable(Driven):
    """With a switch: it is an item of the journal's table."""

    def restart(self) -> None:
        super().restart()
        table = InMemoryTable()
        journal = table_journal(table, InMemoryBlobs(), self.clock)
        allowance = TableAllowance(table, self.clock)
        self._runtime = replace(self._runtime, journal=journal, allowance=allowance)


class Desk:
    """An operator's terminal, and a system with the users ann and bob. `script`: what models answer next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script: list[Any] = []
        self.model = ScriptedModel(lambda _: self.script.pop(0))
        self.world = Switchable(SUPPORT, model=self.model)
        self.url = ""

    def ops(self, *words: str, user: str = "olga") -> Ended:
        """Run a command of operators as this user of the machine."""
        self.world.clock.advance(timedelta(seconds=1))
        at = ("--url", self.url, "--user", user)
        return run_command(self.folder, "ops", *words, *at, without=("LAYOVER_TOKEN",))

    def api(self, user: str = "ann") -> Api:
        return Api(self.url, f"dev:{user}")

    def run(self, *script: Any, user: str = "ann", text: str = f"my {WORD}") -> str:
        """The id of a run with these answers, once it waits or is over."""
        self.script = [*script]
        api = self.api(user)
        thread = api.post("/threads", agent="support")["id"]
        return str(api.post(f"/threads/{thread}/runs", input=text)["id"])

    def waiting(self, user: str = "ann") -> str:
        return self.run(call("refund", order_id=WORD, amount=1), say("done"), user=user)

    def said(self, *words: str) -> str:
        """What a command prints that has to succeed."""
        told = self.ops(*words)
        assert (told.returncode, told.stderr) == (0, "")
        return told.stdout


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with at_url(made.world) as url:
        made.url = url
        yield made
    made.world.close()


# The switch


def test_stop_needs_a_reason(desk: Desk) -> None:
    assert desk.ops("stop").returncode == 2
    assert "nothing is stopped" in desk.said("limits")


def test_who_is_no_operator_turns_no_switch(desk: Desk) -> None:
    with pytest.raises(ApiError) as refused:
        desk.api("ann").put("/operate/switch", reason="x")
    assert refused.value.status == 403
    assert "nothing is stopped" in desk.said("limits")


def test_nothing_begins_between_stop_and_start(desk: Desk) -> None:
    stopped = desk.said("stop", "--reason", "the provider is away")
    assert "by olga: the provider is away" in stopped
    with pytest.raises(ApiError) as refused:
        desk.run(say("hello"))
    assert refused.value.status == 503
    assert desk.said("start") == "nothing is stopped\n"
    desk.world.clock.advance(timedelta(seconds=6))
    run_id = desk.run(say("hello"))
    assert desk.api().get(f"/runs/{run_id}")["status"] == "success"


def test_second_stop_leaves_the_first_ones_author_and_reason(desk: Desk) -> None:
    desk.said("stop", "--reason", "first")
    told = desk.ops("stop", "--reason", "second", user="oscar")
    assert "by olga: first" in told.stdout


def test_stop_and_start_are_in_the_audit(desk: Desk) -> None:
    desk.said("stop", "--reason", "outage")
    desk.said("start")
    lines = desk.said("audit", "--operations").splitlines()
    assert [line.split("  ")[1] for line in lines] == [
        "stop by olga: done: outage",
        "start by olga: done",
    ]


# Limits


def test_limits_name_what_a_user_has_used(desk: Desk) -> None:
    assert "days have no limit" in desk.said("limits", "--owner", "ann")
    desk.world.set(daily_tokens=1_000, runs_per_minute=5)
    told = desk.said("limits", "--owner", "ann")
    assert "tokens of a user and day: 1000\n" in told
    assert "US dollars of a user and day: no limit\n" in told
    assert "runs of a user in a minute: 5\n" in told
    assert "ann today: 0 tokens" in told


# Erasing


def test_nobody_is_erased_without_an_answer(desk: Desk) -> None:
    run_id = desk.run(say("hello"))
    told = desk.ops("erase", "ann", "--reason", "asked for")
    assert told.returncode == 2
    assert "add --yes" in told.stderr
    assert desk.api().get(f"/runs/{run_id}")["status"] == "success"


def test_erased_user_has_nothing_left_and_others_keep_theirs(desk: Desk) -> None:
    anns, bobs = desk.run(say("hello")), desk.run(say("hello"), user="bob")
    assert desk.said("erase", "ann", "--reason", "asked for", "--yes").startswith("ann: what was")
    with pytest.raises(ApiError) as gone:
        desk.api().get(f"/runs/{anns}")
    assert gone.value.status == 404
    assert desk.api("bob").get(f"/runs/{bobs}")["status"] == "success"
    assert "erase by olga: done, ann: asked for" in desk.said("audit", "--operations")


def test_user_who_is_not_there_is_answered_as_one_who_is(desk: Desk) -> None:
    desk.run(say("hello"))
    known = desk.said("erase", "ann", "--reason", "x", "--yes")
    unknown = desk.said("erase", "nobody", "--reason", "x", "--yes")
    assert known.partition(" until ")[0][len("ann") :] == unknown.partition(" until ")[0][6:]


# Redriving


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name runs, or say which failed"),
        (("--error", "RateLimitError"), "with --since 2h"),
        (("--since", "2h"), "--error TYPE or --agent NAME"),
        (("run_1", "--error", "RateLimitError"), "not both"),
    ],
)
def test_redrive_that_names_too_little_or_too_much_is_refused(
    desk: Desk, words: tuple[str, ...], problem: str
) -> None:
    told = desk.ops("redrive", *words)
    assert told.returncode == 2
    assert problem in told.stderr


def test_redrive_by_error_says_how_many_and_does_nothing_without_an_answer(desk: Desk) -> None:
    runs = [desk.run(REFUSAL), desk.run(REFUSAL, user="bob")]
    kind = str(desk.api().get(f"/runs/{runs[0]}")["error"]["type"])
    told = desk.ops("redrive", "--error", kind, "--since", "2026-01-01T00:00:00Z")
    assert told.returncode == 2
    assert f"     2  {kind}  support" in told.stdout
    assert "2 runs, accepted from 2026-01-01T" in told.stdout
    assert "add --yes" in told.stderr
    assert "no such rows" in desk.said("audit", "--operations")


def test_redrive_by_error_names_what_became_of_each(desk: Desk) -> None:
    runs = {desk.run(REFUSAL), desk.run(REFUSAL, user="bob")}
    desk.run(say("hello"))
    kind = str(desk.api().get(f"/runs/{min(runs)}")["error"]["type"])
    since = ("--since", "2026-01-01T00:00:00Z")
    desk.script = [say("It works again."), say("It works again.")]
    told = desk.ops("redrive", "--error", kind, *since, "--yes", "--reason", "mended")
    named = told.stdout + told.stderr
    assert {run_id for run_id in runs if run_id in named} == runs
    rows = desk.said("audit", "--operations", "--kind", "redrive").splitlines()
    assert len(rows) == 2
    assert all(row.endswith(": mended") for row in rows)
    assert desk.said("redrive", "--error", "NoSuchError", *since) == "no such runs failed\n"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", "2026-11-30T06:00:00Z"),
        ("90s", "2026-11-30T07:58:30Z"),
        ("7d", "2026-11-23T08:00:00Z"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
    ],
)
def test_moment_is_a_time_or_how_long_ago(text: str, moment: str) -> None:
    assert moment_of(text, datetime(2026, 11, 30, 8, tzinfo=UTC)) == moment


# What a run says


def test_step_is_content(desk: Desk) -> None:
    told = desk.ops("show", "run_1", "--step", "1")
    assert told.returncode == 2
    assert "add --content" in told.stderr


def test_run_is_shown_without_words(desk: Desk) -> None:
    run_id = desk.waiting()
    told = desk.said("show", run_id)
    assert "step 1: support, " in told
    assert "refund: waiting" in told
    assert WORD not in told


def test_failed_run_says_what_it_was_asked_and_why_it_failed(desk: Desk) -> None:
    run_id = desk.run(REFUSAL)
    told = desk.said("show", run_id, "--content")
    assert f"--- user\nmy {WORD}\n" in told
    assert "--- error " in told
    assert "the prompt of step 1 to " in told
    assert "what its first step would be sent now" in told
    assert "--- system\nHelp with zebras." in told


def test_content_has_prompt_reply_and_tools(desk: Desk) -> None:
    run_id = desk.waiting()
    told = desk.said("show", run_id, "--content")
    assert f'"order_id": "{WORD}"' in told
    assert ", as it was sent\n--- system\nHelp with zebras.\n--- user\n" in told
    assert "--- tools: refund\n" in told
    read = [row for row in desk.said("audit", "--operations").splitlines() if "read by" in row]
    assert len(read) == 2


def test_prompt_of_an_earlier_step_is_shown_by_its_number(desk: Desk) -> None:
    run_id = desk.waiting()
    desk.said("deny", run_id, "--reason", "no")
    told = json.loads(desk.said("show", run_id, "--content", "--step", "1", "--json"))
    assert [m["role"] for m in told["prompt"]["prompt"]["messages"]] == ["user"]
    told = json.loads(desk.said("show", run_id, "--content", "--json"))
    assert [m["role"] for m in told["prompt"]["prompt"]["messages"]] == [
        "user",
        "assistant",
        "tool",
    ]
    assert told["prompt"]["as_sent"]
    missing = desk.ops("show", run_id, "--content", "--step", "9")
    assert missing.returncode == 1
    assert "the run has 2 steps" in missing.stderr


# A step that is tried again


def tried(desk: Desk, request: StepRequest, *script: Any, as_json: bool = False) -> ScriptedModel:
    """The model that was asked, by the operator olga. The command has to succeed."""
    model = ScriptedModel([*script])
    who = (desk.url, "dev:olga;scopes=operate,read-content")
    assert try_step(lambda: who, request, None, as_json=as_json, model=model) == 0
    return model


def test_who_may_not_read_content_tries_no_step(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, model = desk.waiting(), ScriptedModel([])
    who = (desk.url, "dev:olga;scopes=operate")
    assert try_step(lambda: who, StepRequest(run_id), None, as_json=False, model=model) == 1
    assert "(403)" in capsys.readouterr().err
    assert model.turns == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run_0",), "there is no such run"),
        (("RUN", "--step", "9"), "the run has 1 steps"),
        (("RUN", "--system", "none.txt"), "none.txt cannot be read"),
        (("RUN", "--prompt", "words.txt"), "words.txt is not JSON"),
        (("RUN", "--prompt", "other.json"), "other.json has no prompt: model"),
        (("RUN",), "no model can be asked for "),
    ],
)
def test_step_that_cannot_be_tried_says_why(
    desk: Desk, words: tuple[str, ...], message: str
) -> None:
    (desk.folder / "words.txt").write_text("hello")
    (desk.folder / "other.json").write_text("{}")
    run_id = desk.waiting()
    told = desk.ops("try", *(run_id if word == "RUN" else word for word in words))
    assert told.returncode in (1, 2)
    assert message in told.stderr
    assert "--- now" not in told.stdout


def test_model_that_does_not_answer_ends_the_trial_with_its_words(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    who = (desk.url, "dev:olga;scopes=operate,read-content")
    request, model = StepRequest(desk.waiting()), ScriptedModel([fail("no such model", status=404)])
    assert try_step(lambda: who, request, None, as_json=False, model=model) == 1
    assert "did not answer: NotFoundError: no such model" in capsys.readouterr().err


def test_step_is_asked_again_as_it_was_and_shown_next_to_what_was_said(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = desk.waiting()
    model = tried(desk, StepRequest(run_id), call("refund", order_id="other", amount=3))
    [sent], [again] = desk.model.turns, model.turns
    assert again.model_dump(include=WHAT_IS_SENT) == sent.model_dump(include=WHAT_IS_SENT)
    assert [m.content for m in again.messages] == [m.content for m in sent.messages]
    now, then = capsys.readouterr().out.split("--- then, by ")
    assert 'refund {"order_id": "other", "amount": 3}' in now
    assert f'refund {{"order_id": "{WORD}", "amount": 1}}' in then
    assert " tokens, " in now
    assert " tokens, " in then


def test_trial_runs_no_tool_and_leaves_only_rows_of_its_readings(desk: Desk) -> None:
    run_id = desk.waiting()
    before = desk.api().get(f"/runs/{run_id}")
    tried(desk, StepRequest(run_id), call("refund", order_id="other", amount=3))
    assert desk.api().get(f"/runs/{run_id}") == before
    rows = desk.said("audit", "--operations").splitlines()
    assert [row.split("  ")[1].partition(":")[0] for row in rows] == ["read by olga"] * 2


def test_step_is_tried_with_another_model_and_system_message(desk: Desk) -> None:
    (desk.folder / "system.txt").write_text("Help with horses.")
    request = StepRequest(desk.waiting(), model="acme/large", system=desk.folder / "system.txt")
    [prompt] = tried(desk, request, say("yes")).turns
    assert (prompt.model, prompt.system) == ("acme/large", "Help with horses.")


def test_step_is_tried_with_the_prompt_of_a_file(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = desk.waiting()
    shown = desk.said("show", run_id, "--content", "--json").replace(WORD, "horse")
    (desk.folder / "prompt.json").write_text(shown)
    request = StepRequest(run_id, prompt=desk.folder / "prompt.json")
    [prompt] = tried(desk, request, say("yes")).turns
    assert [m.text for m in prompt.messages] == ["my horse"]
    assert "not exactly what was sent: it is the prompt of a file" in capsys.readouterr().out


def test_whatever_a_prompt_has_is_sent_again(desk: Desk) -> None:
    prompt = Prompt(
        model="acme/large",
        tools=(ToolSpec(name="look", description="Look.", parameters={}, strict=True),),
        output=OutputSpec(name="answer", json_schema={"type": "object"}, strict=True),
        settings=ModelSettings(max_tokens=7),
        api="responses",
        provider_tools=(ProviderTool(type="web_search", options={"max_uses": 2}),),
    )
    (desk.folder / "prompt.json").write_text(prompt_view(1, prompt, None).model_dump_json())
    request = StepRequest(desk.waiting(), prompt=desk.folder / "prompt.json")
    assert tried(desk, request, say("yes")).turns == [prompt]


def test_files_of_a_prompt_are_named_to_the_model(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = desk.waiting()
    shown = json.loads(desk.said("show", run_id, "--content", "--json"))
    photo = {"type": "file", "file_id": "file_1", "name": "a.png", "mime_type": "image/png"}
    shown["prompt"]["prompt"]["messages"][0]["content"].append(photo)
    (desk.folder / "prompt.json").write_text(json.dumps(shown))
    request = StepRequest(run_id, prompt=desk.folder / "prompt.json")
    [prompt] = tried(desk, request, say("yes")).turns
    assert prompt.messages[0].text.endswith("[file: a.png, image/png]")
    assert "sent: files are only named, and not shown, to the model: 1" in capsys.readouterr().out


def test_model_that_the_projects_agent_brings_is_asked(desk: Desk) -> None:
    (desk.folder / "layover.toml").write_text('agents = "tried_agents"\n')
    (desk.folder / "tried_agents.py").write_text(OWN_MODEL)
    told = desk.ops("try", desk.waiting(), "--model", "own/model")
    assert (told.returncode, told.stderr) == (0, "")
    assert "--- now, by own/model: " in told.stdout
    assert "\nown words\n" in told.stdout


def test_failed_step_is_tried_again_and_had_no_reply(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = desk.run(REFUSAL)
    tried(desk, StepRequest(run_id), say("Hello."))
    told = capsys.readouterr().out
    assert "not exactly what was sent: " in told
    assert "\nHello.\n--- then: this step had no reply\n" in told


def test_earlier_step_is_tried_by_its_number_and_printed_as_json(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = desk.waiting()
    desk.script = [say("done")]
    desk.said("deny", run_id, "--reason", "no")
    capsys.readouterr()
    tried(desk, StepRequest(run_id, step=1), say("Hello."), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["run_id"], told["step"], told["notes"]) == (run_id, 1, [])
    assert told["now"]["content"] == [{"type": "text", "text": "Hello."}]
    assert [part["type"] for part in told["then"]["content"]] == ["tool_call"]


# The audit


def test_decisions_are_filtered_and_say_what_was_changed(desk: Desk) -> None:
    plain, changed = desk.waiting(), desk.waiting(user="bob")
    for run_id, user, more in ((plain, "ann", {}), (changed, "bob", {"args": {"amount": 2}})):
        api = desk.api(user)
        [wait] = api.get(f"/runs/{run_id}")["pending"]
        args: Any = {"args": {**wait["args"], **more["args"]}} if more else {}
        url = f"/runs/{run_id}/tool-calls/{wait['tool_call_id']}/approve"
        desk.script = [say("done")]
        api.post(url, attempt=1, **args)
    lines = desk.said("audit").splitlines()
    assert len(lines) == 2
    assert "refund: approved by ann (api)" in lines[0]
    assert "refund: approved with changes by bob (api)" in lines[1]
    assert desk.said("audit", "--by", "bob") == f"{lines[1]}\n"
    assert desk.said("audit", "--tool", "look_up") == "no such rows\n"
    rows = [json.loads(line) for line in desk.said("audit", "--json").splitlines()]
    assert [row["changed"] for row in rows] == [False, True]


def test_export_has_names_and_no_formula(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = desk.waiting()
    desk.said("deny", run_id, "--reason", "=HYPERLINK(1)")
    request = Request(book="decisions", days={}, only={}, form="csv")
    names = {"ann": "ann@example.com"}
    who = (desk.url, "dev:olga;scopes=audit")
    assert audit(lambda: who, request, lambda user: names.get(user, user)) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.startswith("decided_at,decision,changed,")
    assert "ann@example.com" in row
    assert ",'=HYPERLINK(1)," in row


def test_audit_is_printed_one_way(desk: Desk) -> None:
    assert desk.ops("audit", "--csv", "--json").returncode == 2


def test_who_is_no_auditor_reads_no_audit(desk: Desk) -> None:
    request = Request(book="decisions", days={}, only={})
    assert audit(lambda: (desk.url, "dev:ann"), request) == 1


# Following


def watch(desk: Desk) -> Watch:
    token = "dev:olga;scopes=operate"
    return Watch(lambda: Api(desk.url, token), {}, desk.world.clock.now)


def test_each_change_of_a_run_is_told_once(desk: Desk) -> None:
    before = desk.waiting()
    watching = watch(desk)
    assert [run["id"] for run in watching.begin(10, failed=False)] == [before]
    assert watching.look() == []
    desk.script = [say("done")]
    desk.said("deny", before, "--reason", "no")
    after = desk.run(REFUSAL, user="bob")
    told = {(run["id"], run["status"]) for run in watching.look()}
    assert told == {(before, "success"), (after, "failed")}
    assert watching.look() == []


def test_run_that_waits_for_its_provider_is_told_once_with_what_it_waits_for(desk: Desk) -> None:
    watching = watch(desk)
    watching.begin(10, failed=False)
    run_id = desk.run(AWAY)
    [run] = watching.look()
    until = run["waiting_for"]["until"][:19]
    waits = f"running, waits for openai until {until}Z (InternalServerError), 0 steps"
    assert waits in desk.said("runs", "--status", "running")
    assert waits in desk.said("show", run_id)
    assert waits_of(run).endswith(f"waits for openai until {until}Z (InternalServerError)")
    for answer, news in ((AWAY, []), (say("done"), [(run_id, "success")])):
        desk.world.clock.advance(timedelta(minutes=5))
        desk.script = [answer]
        desk.said("redrive", run_id)
        assert [(run["id"], run["status"]) for run in watching.look()] == news
    assert "waits" not in desk.said("show", run_id)


def test_run_that_was_erased_is_not_told_of(desk: Desk) -> None:
    desk.waiting()
    watching = watch(desk)
    watching.begin(10, failed=False)
    desk.said("erase", "ann", "--reason", "x", "--yes")
    assert watching.look() == []


def test_tail_prints_failures_only_and_outlives_a_deployment_that_does_not_answer(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.run(say("hello"))
    failed: list[str] = []
    turns = iter(("away", "fail", "end"))

    def sleep(_: float) -> None:
        turn = next(turns)
        if turn == "end":
            raise KeyboardInterrupt
        if turn == "fail":
            failed.append(desk.run(REFUSAL))

    def who() -> tuple[str, str]:
        url = "http://127.0.0.1:9" if asked and not failed else desk.url
        asked.append(url)
        return url, "dev:olga;scopes=operate"

    asked: list[str] = []
    assert tail(who, {}, 10, failed=True, sleep=sleep, now=desk.world.clock.now) == 0
    told = capsys.readouterr()
    assert "asked again" in told.err
    [line] = told.out.splitlines()
    assert f"failed    {failed[0]}" in line
    assert line[19] == "Z"
