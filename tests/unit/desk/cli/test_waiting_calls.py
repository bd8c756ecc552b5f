"""`layover chat` goes on while a call waits: what is typed in the place of a decision is the next message."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from layover.desk.cli.chat.commands import Talk
from layover.desk.cli.chat.decisions import decide
from layover.desk.cli.chat.loop import Chat
from layover.desk.cli.client import Api, ApiError
from unit.desk.cli.test_chat import Json, Lines, pending, said


@dataclass
class Runs(Api):
    """An API whose runs have their own events. `starts`: id, status and first events of each run that a
    message gets; `then`: a run -> its events after a decision."""

    starts: list[tuple[str, str, list[Json]] | ApiError]
    then: dict[str, list[Json]] = field(default_factory=dict)
    thread: Json = field(default_factory=lambda: {"id": "thread_1", "agent": "shop"})
    events: dict[str, list[Json]] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    made: list[tuple[str, str]] = field(default_factory=list)
    """Decisions: the run and the verdict."""
    refusal: ApiError | None = None
    """The answer to the next look at a run, once."""

    def get(self, path: str, **query: Any) -> Any:
        """As `Api.get`."""
        parts = path.split("/")
        if parts[1] == "threads":
            return self.thread
        if parts[-1] != "events":
            refusal, self.refusal = self.refusal, None
            if refusal is not None:
                raise refusal
            return {"id": parts[2], "status": self.status[parts[2]]}
        events = self.events[parts[2]]
        items = [{"seq": n, **event} for n, event in enumerate(events, 1)][query["after"] :]
        done = any(event["type"] == "finish" for event in events)
        return {"items": items, "last_seq": len(events), "done": done}

    def follow(self, path: str, **query: Any) -> Iterator[Json]:
        """As `Api.follow`."""
        page = self.get(path, **query)
        if page["items"]:
            yield page

    def post(self, path: str, *, idempotency_key: str = "", **body: Any) -> Any:
        """As `Api.post`."""
        if path == "/threads":
            return self.thread
        if not path.endswith("/runs"):
            run_id = path.split("/")[2]
            self.made.append((run_id, path.rpartition("/")[2]))
            self._go_on(run_id)
            return {"id": run_id, "status": self.status[run_id]}
        self.inputs.append(body["input"])
        start = self.starts.pop(0)
        if isinstance(start, ApiError):
            raise start
        run_id, status, events = start
        self.status[run_id] = status
        if events:
            self.events.setdefault(run_id, []).extend(events)
        return {"id": run_id, "status": status}

    def _go_on(self, run_id: str) -> None:
        self.events[run_id] += self.then[run_id]
        self.status[run_id] = "success"

    def upload(self, url: str, data: bytes, mime_type: str) -> None:
        """As `Api.upload`."""


def waits(run_id: str = "run_1", **more: Any) -> tuple[str, str, list[Json]]:
    return run_id, "suspended", [pending(**{"run_id": run_id, **more})]


def talk(server: Runs, *typed: str, thread_id: str | None = None) -> Lines:
    lines = Lines(list(typed))
    Chat(server, lines, Talk("shop", thread_id), lambda _: None).hold()
    return lines


def test_message_in_the_place_of_a_decision_is_answered_and_the_call_waits_on() -> None:
    server = Runs([waits(), ("run_2", "running", said("It rains."))])
    lines = talk(server, "refund it", "and the weather?")
    assert server.inputs == ["refund it", "and the weather?"]
    assert server.made == []
    at = lines.shown.index("It rains.")
    assert lines.shown[at + 2] == "refund(amount=60) waits: /approve or /deny"
    assert lines.prompts[-1] == "> "


def test_call_that_waits_is_approved_later_and_its_answer_is_shown() -> None:
    server = Runs([waits(), ("run_2", "running", said("It rains."))], {"run_1": said("Paid.")})
    lines = talk(server, "refund it", "weather?", "/approve", "/approve")
    assert server.made == [("run_1", "approve")]
    assert lines.shown.index("Paid.") > lines.shown.index("It rains.")
    assert lines.shown[-1] == "nothing waits"


def test_calls_of_several_runs_are_told_apart_by_their_numbers() -> None:
    second = waits("run_2", args={"amount": 7})
    server = Runs([waits(), second], {"run_2": said("Denied."), "run_1": said("Paid.")})
    lines = talk(
        server, "refund it", "refund 7, too", "/later", "/deny 2 no", "/approve 3", "/exit"
    )
    assert "refund(amount=60) waits (1): /approve or /deny 1" in lines.shown
    assert "refund(amount=7) waits (2): /approve or /deny 2" in lines.shown
    assert server.made == [("run_2", "deny")]
    assert "1 to 1 wait" in lines.shown


def test_question_is_asked_again_with_all_that_it_offers() -> None:
    server = Runs([waits()], {"run_1": said("Paid.")})
    lines = talk(server, "refund it", "/later", "/decide", "edit", '{"amount": 4}')
    assert server.made == [("run_1", "approve")]
    assert "Paid." in lines.shown


def test_form_is_left_open_by_a_command() -> None:
    form = waits(kind="input", payload=None, resume_schema={"type": "string"})
    server = Runs([form, ("run_2", "running", said("It rains."))], {"run_1": said("Booked.")})
    lines = talk(server, "book", "/later", "weather?", "/decide", "18:00")
    assert "refund(amount=60) waits: /decide or /deny" in lines.shown
    assert server.made == [("run_1", "resume")]
    assert "Booked." in lines.shown


def test_form_is_declined_by_its_number() -> None:
    asked: Json = {"kind": "input", "payload": None, "resume_schema": {"type": "string"}}
    second = waits("run_2", args={"amount": 7}, **asked)
    server = Runs([waits(**asked), second], {"run_2": said("Then not.")})
    lines = talk(server, "book", "/later", "book 7, too", "/later", "/deny 2 too private", "/exit")
    assert server.made == [("run_2", "deny")]
    assert "Then not." in lines.shown


def test_form_that_is_asked_is_the_one_that_is_declined() -> None:
    asked: Json = {"kind": "input", "payload": None, "resume_schema": {"type": "string"}}
    server = Runs([waits(**asked), waits("run_2", **asked)], {"run_2": said("Then not.")})
    talk(server, "book", "/later", "book again", "/later", "/decide 2", "/deny", "/exit")
    assert server.made == [("run_2", "deny")]


def test_account_is_denied_without_another_question() -> None:
    server = Runs([], {"run_1": []}, events={"run_1": []})
    lines = Lines([])
    account = pending("connect", payload={"connection": "github"})
    assert decide(server, lines, account, "n not today")
    assert (server.made, lines.prompts) == ([("run_1", "deny")], [])


@pytest.mark.parametrize("command", ["/approve", "/approve 1 yes", "/decide"])
def test_form_has_no_yes_and_is_asked_again(command: str) -> None:
    form = waits(kind="input", payload=None, resume_schema={"type": "string"})
    server = Runs([form], {"run_1": said("Booked.")})
    talk(server, "book", "/later", command, "18:00")
    assert server.made == [("run_1", "resume")]


def test_message_that_is_sent_to_the_run_that_waits_asks_nothing_again() -> None:
    server = Runs([waits(), ("run_1", "suspended", [])], {"run_1": said("Paid to Bea.")})
    lines = talk(server, "refund it", "to Bea, please", "/approve")
    assert "it reads this once its call is decided" in lines.shown
    assert len([prompt for prompt in lines.prompts if prompt.startswith("approve")]) == 1
    assert "Paid to Bea." in lines.shown


def test_message_that_withdraws_the_call_is_answered_by_its_run() -> None:
    withdrawn = {"type": "tool-call-decided", "tool_call_id": "c/1", "decision": "withdrawn"}
    gone = [{**withdrawn, "decided_by": "cli", "reason": None}, *said("Then not.")]
    server = Runs([waits(), ("run_1", "running", gone)])
    lines = talk(server, "refund it", "never mind")
    assert "refund withdrawn by cli" in lines.shown
    assert "Then not." in lines.shown
    assert "refund(amount=60) waits: /approve or /deny" not in lines.shown[-3:]


def test_message_that_the_agent_refuses_leaves_the_call_waiting() -> None:
    busy = ApiError("a run of the thread waits for a decision (409)", 1, 409)
    lines = talk(Runs([waits(), busy]), "refund it", "weather?")
    assert lines.shown[-1] == "refund(amount=60) waits: /approve or /deny"


class Later(Lines):
    """Somebody else approves the call of `server` while the person types the line `at`."""

    def __init__(self, server: Runs, at: str, *typed: str) -> None:
        super().__init__(list(typed))
        self._server = server
        self._at = at

    def read(self, prompt: str, text: str = "") -> str | None:
        """As `Lines.read`."""
        line = super().read(prompt, text)
        if line == self._at:
            self._server._go_on("run_1")
        return line


def test_what_others_decided_while_a_line_was_typed_is_shown_before_its_answer() -> None:
    server = Runs([waits(), ("run_2", "running", said("It rains."))], {"run_1": said("Paid.")})
    lines = Later(server, "weather?", "refund it", "weather?")
    Chat(server, lines, Talk("shop"), lambda _: None).hold()
    assert lines.shown.index("Paid.") < lines.shown.index("It rains.")
    assert lines.shown.count("Paid.") == 1


@pytest.mark.parametrize("line", ["", "/exit"])
def test_what_others_decided_is_shown_on_an_empty_line_and_at_the_end(line: str) -> None:
    server = Runs([waits()], {"run_1": said("Paid.")})
    lines = Later(server, line, "refund it", "/later", line)
    Chat(server, lines, Talk("shop"), lambda _: None).hold()
    assert lines.shown.count("Paid.") == 1


def test_line_is_answered_although_what_waits_cannot_be_read() -> None:
    server = Runs([waits(), ("run_2", "running", said("It rains."))])

    class Lost(Lines):
        """The run that waits cannot be read once the second line is typed."""

        def read(self, prompt: str, text: str = "") -> str | None:
            line = super().read(prompt, text)
            if line == "weather?":
                server.refusal = ApiError("no answer", 1, None)
            return line

    lines = Lost(["refund it", "/later", "weather?"])
    Chat(server, lines, Talk("shop"), lambda _: None).hold()
    assert "no answer" in lines.shown
    assert "It rains." in lines.shown


def test_thread_shows_what_waits_in_it() -> None:
    server = Runs([], {"run_1": [{"type": "turn-start", "step": 2}, *said("Paid.")]})
    server.events["run_1"], server.status["run_1"] = [*said("Wait.")[:1], pending()], "suspended"
    server.thread["waiting_runs"] = [{"id": "run_1", "status": "suspended"}]
    lines = talk(server, "/approve", thread_id="thread_1")
    assert lines.shown.index("refund(amount=60) waits: /approve or /deny") < lines.shown.index(
        "Paid."
    )
    assert "Wait." not in lines.shown


def test_exit_in_the_place_of_a_decision_ends_the_conversation() -> None:
    server = Runs([waits()])
    lines = talk(server, "refund it", "/exit", "not read")
    assert server.inputs == ["refund it"]
    assert lines.typed == ["not read"]


OTHERS = {"by": ["finance"], "quorum": 1, "reason_required": False, "requester": False}


def test_call_that_only_others_decide_waits_beside_the_conversation_unasked() -> None:
    start = ("run_1", "suspended", [pending(approval=OTHERS)])
    server = Runs([start, ("run_2", "running", said("It rains."))], {"run_1": said("Paid.")})
    lines = talk(server, "refund it", "weather?")
    assert set(lines.prompts) == {"> "}
    assert lines.shown.count("decided by: finance; 1 of them") == 1
    assert lines.shown.count("refund(amount=60) waits: others decide") == 2
    assert server.inputs == ["refund it", "weather?"]
    assert server.made == []


def test_call_of_others_is_not_decided_by_a_command_either() -> None:
    server = Runs([("run_1", "suspended", [pending(approval=OTHERS)])])
    lines = talk(server, "refund it", "/approve it is urgent")
    assert lines.shown.count("decided by: finance; 1 of them") == 2
    assert server.made == []


def test_own_call_is_asked_about_where_another_of_the_run_is_for_others() -> None:
    own = pending(tool_call_id="c2", args={"amount": 5})
    events = [pending(approval=OTHERS), own]
    server = Runs([("run_1", "suspended", events)], {"run_1": said("Paid.")})
    lines = talk(server, "refund both", "y")
    assert lines.prompts[1] == "approve refund(amount=5)? [y/N/edit] "
    assert server.made == [("run_1", "approve")]


@dataclass
class Connecting(Runs):
    """Runs whose call waits for an account. `looks`: looks at the run until the person has consented."""

    looks: int = 0
    page: ClassVar[str] = "https://accounts.example.com/a?state=s"

    def post(self, path: str, *, idempotency_key: str = "", **body: Any) -> Any:
        """As `Api.post`."""
        if path == "/me/connections/github":
            return {"connection": "github", "authorize_url": self.page, "scopes": ["repo"]}
        return super().post(path, idempotency_key=idempotency_key, **body)

    def get(self, path: str, **query: Any) -> Any:
        """As `Api.get`."""
        answer = super().get(path, **query)
        if path != "/runs/run_1":
            return answer
        self.looks -= 1
        if self.looks >= 0:
            return {**answer, "pending": [{"tool_call_id": "c/1", "attempt": 1}]}
        if self.status["run_1"] == "suspended":
            self._go_on("run_1")
        return {**answer, "pending": []}


WANTS = {"connection": "github", "scopes": ["repo"]}


def test_call_that_waits_for_an_account_shows_where_to_connect_it_and_goes_on() -> None:
    form = waits(kind="connect", payload=WANTS, resume_schema={})
    server = Connecting([form], {"run_1": said("Starred.")}, looks=2)
    lines = talk(server, "star it", "", "")
    assert "refund(amount=60) works with your github account:" in lines.shown
    assert f"  connect it at {Connecting.page}" in lines.shown
    assert server.made == []
    assert "Starred." in lines.shown


def test_person_who_does_not_connect_the_account_declines_or_talks_on() -> None:
    form = waits(kind="connect", payload=WANTS, resume_schema={})
    start = [form, ("run_2", "running", said("It rains."))]
    server = Connecting(list(start), {"run_1": said("Then not.")}, looks=9)
    lines = talk(server, "star it", "weather?", "/decide", "n not now")
    assert "refund(amount=60) waits: /decide or /deny" in lines.shown
    assert server.made == [("run_1", "deny")]
    assert "Then not." in lines.shown
