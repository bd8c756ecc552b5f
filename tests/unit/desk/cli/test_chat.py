"""`layover chat` against an API that answers as it is told, on a terminal that is two lists."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cli.chat.commands import HELP, Talk
from layover.desk.cli.chat.loop import Chat, choose, command_of
from layover.desk.cli.client import Api, ApiError

Json = dict[str, Any]
ACTIVE = {"id": "run_1", "status": "suspended"}
USAGE = {"total_tokens": 12, "cost_usd": 0.0004}


def pending(kind: str = "approval", **more: Any) -> Json:
    """Return the event of a suspended call."""
    call = {"tool_call_id": "c/1", "tool_name": "refund", "args": {"amount": 60}, "attempt": 1}
    return {"type": "tool-call-suspended", "run_id": "run_1", "kind": kind, **call, **more}


def said(text: str) -> list[Json]:
    """An answer without deltas, and its end."""
    message = {"content": [{"type": "text", "text": text}]}
    return [
        {"type": "turn-end", "step": 1, "message": message},
        {"type": "finish", "status": "success", "finish_reason": "stop", "usage": USAGE},
    ]


@dataclass
class Server(Api):
    """Pages of events in order; an error in their place is raised. `posts`: what was sent."""

    pages: list[list[Json] | ApiError | type[KeyboardInterrupt]]
    refusals: dict[str, list[ApiError | type[KeyboardInterrupt]]] = field(default_factory=dict)
    """The end of a path -> what is answered there first."""
    keys: list[str] = field(default_factory=list)
    """`Idempotency-Key` of each request that has one, in order."""
    posts: list[tuple[str, Json]] = field(default_factory=list)
    seq: int = 0
    over: bool = False

    def follow(self, path: str, **query: Any) -> Iterator[Json]:
        """As `Api.follow` of a server that streams: one event after the other, until a page is over."""
        page = self.get(path, **query)
        for event in page["items"]:
            yield {"items": [event], "last_seq": event["seq"], "done": False}

    def get(self, path: str, **query: Any) -> Any:
        """As `Api.get`."""
        if path == "/agents":
            return {"items": [{"name": "shop"}, {"name": "support"}]}
        if not path.endswith("/events"):
            return {"id": "thread_1", "agent": "shop", "active_run": ACTIVE}
        if "wait" not in query:  # what a stream that ended is asked about
            over, self.over = self.over, False
            return {"items": [], "last_seq": query["after"], "done": over}
        assert query["after"] == self.seq
        page = self.pages.pop(0)
        if isinstance(page, ApiError):
            raise page
        if not isinstance(page, list):
            raise page
        self.seq += len(page)
        done = any(event["type"] == "finish" for event in page)
        items = [{"seq": self.seq - len(page) + i + 1, **event} for i, event in enumerate(page)]
        self.over = done
        if done:
            self.seq = 0
        return {"items": items, "last_seq": items[-1]["seq"] if items else self.seq, "done": done}

    def post(self, path: str, *, idempotency_key: str = "", **body: Any) -> Any:
        """As `Api.post`."""
        if idempotency_key:
            self.keys.append(idempotency_key)
        for end, errors in self.refusals.items():
            if path.endswith(end) and errors:
                raise errors.pop(0)
        self.posts.append((path, body))
        if path == "/files":
            return {"id": "file_1", "upload_url": "http://upload.test"}
        return {"id": "run_1" if path.endswith("/runs") else "thread_1"}

    def upload(self, url: str, data: bytes, mime_type: str) -> None:
        """As `Api.upload`."""

    def decisions(self) -> list[tuple[str, Json]]:
        """Verdict and body of each."""
        made = [
            (path.rpartition("/")[2], body) for path, body in self.posts if "/tool-calls/" in path
        ]
        return [
            (verdict, {k: v for k, v in body.items() if k != "attempt"}) for verdict, body in made
        ]


@dataclass
class Lines:
    """A terminal: the lines that are typed, and everything that is shown."""

    typed: list[str | type[KeyboardInterrupt]]
    interactive: bool = True
    shown: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)

    def read(self, prompt: str, text: str = "") -> str | None:
        """As `Terminal.read`."""
        self.prompts.append(prompt)
        self.offered.append(text)
        line = self.typed.pop(0) if self.typed else None
        if isinstance(line, type):
            raise line
        return line

    def write(self, text: str) -> None:
        """As `Terminal.write`."""
        self.shown.append(text)

    def end(self) -> None:
        """As `Terminal.end`."""

    def note(self, text: str, style: str = "dim") -> None:
        """As `Terminal.note`."""
        self.shown.append(text)

    @property
    def text(self) -> str:
        """All that was shown."""
        return "\n".join(self.shown)


def hold(server: Server, lines: Lines, thread_id: str | None = None) -> Chat:
    """A conversation to its end."""
    chat = Chat(server, lines, Talk("shop", thread_id), lambda _: None)
    chat.hold()
    return chat


def test_unknown_agent_is_refused_with_the_names_of_others() -> None:
    with pytest.raises(ApiError, match="no agent 'stranger'; served are shop, support"):
        choose(Server([]), "stranger")


def test_mistyped_agent_is_refused_with_the_nearest() -> None:
    with pytest.raises(ApiError, match=r"no agent 'shpo': did you mean 'shop'\?"):
        choose(Server([]), "shpo")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("/agnet support", "no /agnet: did you mean /agent?"),
        ("/exti", "no /exti: did you mean /exit?"),
        ("/agent suport", "no agent 'suport': did you mean 'support'? agents: shop, support"),
        ("/agent zzz", "agents: shop, support"),
        ("/help", HELP),
        ("/", HELP),
        ("/zzzz", HELP),
    ],
)
def test_mistyped_command_or_agent_is_told_the_nearest(line: str, shown: str) -> None:
    lines = Lines([line])
    hold(Server([]), lines)
    assert lines.shown[-1] == shown


def test_first_agent_answers_where_none_is_named() -> None:
    assert choose(Server([]), None) == "shop"


def test_lost_connection_goes_on_after_the_last_event() -> None:
    delta = {"type": "text-delta", "step": 1, "text": "one "}
    lost = ApiError("no answer", 3)
    server = Server([[delta], lost, lost, [{**delta, "text": "two"}, *said("one two")]])
    lines = Lines(["hi"])
    hold(server, lines)
    assert lines.shown.count("one ") == lines.shown.count("two") == 1
    assert "one two" not in lines.shown  # it came piece by piece
    assert lines.text.count("trying again") == 1  # of two attempts


def test_streams_that_end_without_an_event_are_asked_for_less_and_less_often() -> None:
    """A run that waits for a person ends its stream at once. What follows is followed closely again."""
    delta = {"type": "text-delta", "step": 1, "text": "one "}
    server = Server([[delta], *[[]] * 8, [delta], [], said("one one")])
    pauses: list[float] = []
    Chat(server, Lines(["hi"]), Talk("shop"), pauses.append).hold()
    assert pauses == [0.1, 1.0, 1.5, 2.0, 3.0, 4.0, 4.0, 4.0, 0.1]


def test_connection_that_stays_lost_ends_the_conversation() -> None:
    server = Server([ApiError("no answer", 3)] * 99)
    with pytest.raises(ApiError):
        hold(server, Lines(["hi"]))
    assert len(server.pages) > 60


def test_refused_message_is_told_and_the_next_one_is_asked() -> None:
    busy = ApiError("the thread has an active run (409)", 1, 409)
    server = Server([said("fine")], refusals={"/runs": [busy]})
    lines = Lines(["hi", "hi again"])
    assert not hold(server, lines).ended_badly
    assert "the thread has an active run (409)" in lines.shown
    assert "fine" in lines.shown


def test_files_of_a_refused_message_go_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    refused = ApiError("the thread has an active run (409)", 1, 409)
    server = Server([said("fine"), said("again")], {"/runs": [refused]})
    hold(server, Lines([f"/files {tmp_path / 'a.txt'}", "hi", "hi again", "and now?"]))
    first, second = (body["input"] for path, body in server.posts if path.endswith("/runs"))
    assert [part["type"] for part in first] == ["file", "text"]
    assert second == "and now?"


def test_failed_run_is_told_and_remembered_for_the_exit_code() -> None:
    failed = {"type": "finish", "status": "failed", "finish_reason": "error", "usage": USAGE}
    error = {"type": "error", "error": {"type": "ModelError", "message": "it is down"}}
    lines = Lines(["hi"])
    assert hold(Server([[error, failed]]), lines).ended_badly
    assert "ModelError: it is down" in lines.shown


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["y"], ("approve", {})),
        (["Y it broke"], ("approve", {"reason": "it broke"})),
        ([""], ("deny", {})),
        (["n too much"], ("deny", {"reason": "too much"})),
        (["/later", "/deny too much"], ("deny", {"reason": "too much"})),
        (["/later", "/decide", "edit", '{"amount": 40}'], ("approve", {"args": {"amount": 40}})),
        (["/usage", "/approve 1 it broke"], ("approve", {"reason": "it broke"})),
        (["edit", '{"amount": 40}'], ("approve", {"args": {"amount": 40}})),
        (["edit", "no json", "[1]", '{"amount": 4}'], ("approve", {"args": {"amount": 4}})),
        (["edit", ""], ("approve", {"args": {"amount": 60}})),
    ],
)
def test_approval_is_asked_with_the_call_as_it_reads_in_code(
    typed: list[str], decision: tuple[str, Json]
) -> None:
    server = Server([[pending()], said("done")])
    lines = Lines(["refund it", *typed])
    hold(server, lines)
    assert lines.prompts[1] == "approve refund(amount=60)? [y/N/edit] "
    assert server.decisions() == [decision]


def test_a_request_begins_with_what_its_tool_says_about_the_call() -> None:
    said_so = {"summary": "Refund 60.00 euros", "risk": "high", "asked_again": "definition"}
    lines = Lines(["refund it", "y"])
    hold(Server([[pending(**said_so)], said("done")]), lines)
    assert "Refund 60.00 euros (high risk)" in lines.shown
    assert "approved before; a new version of the tool changed its arguments" in lines.shown


def test_edited_arguments_begin_as_the_models() -> None:
    lines = Lines(["refund it", "edit", ""])
    hold(Server([[pending()], said("done")]), lines)
    assert lines.offered[2] == '{"amount": 60}'


def test_arguments_that_do_not_fit_are_told_and_asked_again() -> None:
    wrong = ApiError("args.amount: too large (422)", 1, 422)
    server = Server([[pending()], said("done")], refusals={"/approve": [wrong]})
    lines = Lines(["refund it", "edit", '{"amount": 9000}', "n"])
    hold(server, lines)
    assert "args.amount: too large (422)" in lines.shown
    assert server.decisions() == [("deny", {})]


def test_decision_that_somebody_else_made_first_is_told() -> None:
    decided = {"type": "tool-call-decided", "tool_call_id": "c/1", "decision": "denied"}
    first = ApiError("the call was decided (409)", 1, 409)
    pages: Any = [[pending()], [{**decided, "decided_by": "bea", "reason": "no"}, *said("ok")]]
    lines = Lines(["refund it", "y"])
    hold(Server(pages, refusals={"/approve": [first]}), lines)
    assert "the call was decided (409)" in lines.shown
    assert "refund denied by bea: no" in lines.shown


def test_call_that_others_decide_is_waited_for() -> None:
    rule = {"by": ["finance"], "quorum": 2, "reason_required": False}
    others = ApiError("finance decides this call (403)", 1, 403)
    server = Server([[pending(approval=rule)], [], said("paid")], {"/approve": [others]})
    lines = Lines(["refund it", "y"])
    hold(server, lines)
    assert "decided by: finance; 2 of them" in lines.shown
    assert "paid" in lines.shown
    assert server.decisions() == []


@pytest.mark.parametrize("kind", ["approval", "input"])
def test_pipe_is_not_asked_about_a_call_that_its_owner_may_not_decide(kind: str) -> None:
    rule = {"by": ["finance", "board"], "quorum": 1, "reason_required": True, "requester": False}
    server = Server([[pending(kind, approval=rule, summary="Pay Nora")]])
    lines = Lines(["refund it", "y"], interactive=False)
    hold(server, lines)
    assert lines.prompts == ["> "]
    assert lines.shown[-3:] == [
        "Pay Nora",
        "decided by: finance, board; 1 of them",
        "run_1 waits: layover chat --thread thread_1",
    ]
    assert server.decisions() == []


def test_votes_so_far_are_told_with_their_arguments_before_anybody_is_asked() -> None:
    given = [
        {"by": "bea", "args": {"amount": "40"}, "exact_args": {"amount": 40}, "reason": "enough"},
        {"by": "shop", "on_behalf_of": "carl", "args": {"amount": 60}},
    ]
    rule = {"by": ["finance"], "quorum": 2, "reason_required": False, "given": given}
    lines = Lines(["refund it", "y"])
    hold(Server([[pending(approval=rule)], said("done")]), lines)
    at = lines.shown.index("decided by: finance; 2 of them")
    assert lines.shown[at + 1 : at + 4] == [
        "bea approved refund(amount=40): enough",
        "carl approved refund",
        "1 of 2 approvals of these arguments given, 1 of 2 of others",
    ]


@pytest.mark.parametrize(("kind", "typed"), [("approval", "n"), ("input", "x")])
def test_what_was_denied_before_is_said_before_anything_is_asked(kind: str, typed: str) -> None:
    before = [
        {"args": {"amount": 60}, "reason": "they have a voucher", "decided_by": "bea"},
        {"args": {"amount": 50}, "reason": None, "decided_by": "desk", "on_behalf_of": "ann"},
    ]
    asked = pending(kind, denied_before=before, resume_schema={"type": "string"})
    lines = Lines(["refund it", typed])
    hold(Server([[asked], said("done")]), lines)
    first = lines.shown.index("denied before: refund(amount=60): they have a voucher (bea)")
    assert lines.shown[first + 1] == "denied before: refund(amount=50) (ann)"


def test_reason_is_asked_where_the_tool_wants_one() -> None:
    rule = {"by": ["finance"], "quorum": 1, "reason_required": True}
    server = Server([[pending(approval=rule)], said("paid")])
    hold(server, Lines(["refund it", "y", "it broke"]))
    assert server.decisions() == [("approve", {"reason": "it broke"})]


def test_form_asks_for_each_field_of_the_schema() -> None:
    schema = {
        "type": "object",
        "$defs": {"Size": {"enum": ["s", "l"], "type": "string"}},
        "properties": {
            "size": {"$ref": "#/$defs/Size"},
            "seats": {"type": "integer", "description": "How many come."},
            "window": {"type": "boolean"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["size", "seats", "window"],
    }
    offer = pending("input", payload={"slots": ["18:00", "19:00"]}, resume_schema=schema)
    server = Server([[offer], said("booked")])
    lines = Lines(["book", "l", "many", "3", "y", ""])
    hold(server, lines)
    assert server.decisions() == [("resume", {"data": {"size": "l", "seats": 3, "window": True}})]
    assert "  slots: 18:00, 19:00" in lines.shown
    assert "size (s | l): " in lines.prompts
    assert "note (string, optional): " in lines.prompts


def test_form_shows_the_names_of_choices_and_sends_their_values() -> None:
    choice = {"enum": ["sku-1", "sku-2"], "enumNames": ["Apple", "sku-2"], "type": "string"}
    several = {"type": "array", "items": choice}
    schema = {"type": "object", "properties": {"one": choice, "more": several}}
    server = Server([[pending("input", payload=None, resume_schema=schema)], said("Done.")])
    lines = Lines(["order", "sku-1", "sku-2", '["sku-2"]'])
    hold(server, lines)
    assert server.decisions() == [("resume", {"data": {"one": "sku-1", "more": ["sku-2"]}})]
    assert "one (sku-1 (Apple) | sku-2, optional): " in lines.prompts
    assert "more (JSON list of sku-1 (Apple) | sku-2, optional): " in lines.prompts


FORM = {
    "type": "object",
    "properties": {"size": {"type": "string"}, "seats": {"type": "integer"}},
    "required": ["size", "seats"],
}


@pytest.mark.parametrize(
    ("typed", "body"),
    [
        (["/deny"], {}),
        (["/deny too private "], {"reason": "too private"}),
        (["l", "/deny no"], {"reason": "no"}),
        (["l", "many", "/deny"], {}),
    ],
)
def test_form_is_declined_in_any_of_its_fields(typed: list[str], body: Json) -> None:
    server = Server([[pending("input", payload=None, resume_schema=FORM)], said("Then not.")])
    lines = Lines(["book", *typed])
    hold(server, lines)
    assert server.decisions() == [("deny", body)]
    assert "refund(amount=60) asks (/deny declines to answer):" in lines.shown
    assert "Then not." in lines.shown


def test_decline_that_needs_a_reason_asks_for_it() -> None:
    rule = {"by": ["finance"], "quorum": 1, "reason_required": True}
    form = pending("input", payload=None, resume_schema={"type": "string"}, approval=rule)
    server = Server([[form], said("Then not.")])
    hold(server, Lines(["book", "/deny", "too private"]))
    assert server.decisions() == [("deny", {"reason": "too private"})]


def test_text_that_only_begins_like_the_command_is_no_decline() -> None:
    form = pending("input", payload=None, resume_schema={"type": "string"})
    server = Server([[form], said("booked")])
    hold(server, Lines(["book", "deny"]))
    assert server.decisions() == [("resume", {"data": "deny"})]


def test_call_that_waits_again_is_asked_again() -> None:
    schema = {"type": "string"}
    first = pending("input", payload=None, resume_schema=schema)
    server = Server([[first], [{**first, "attempt": 2}], said("booked")])
    hold(server, Lines(["book", "never", "18:00"]))
    assert [body["data"] for _, body in server.decisions()] == ["never", "18:00"]


def test_end_of_a_pipe_leaves_a_call_waiting_and_says_how_to_go_on() -> None:
    lines = Lines(["refund it"], interactive=False)
    server = Server([[pending()]])
    assert not hold(server, lines).ended_badly
    assert "run_1 waits: layover chat --thread thread_1" in lines.shown
    assert server.decisions() == []


def test_command_that_goes_on_names_the_user_and_the_system_of_this_conversation() -> None:
    command = command_of("http://127.0.0.1:9000", "bea;groups=finance")
    assert command == "layover chat --url http://127.0.0.1:9000 --user 'bea;groups=finance'"
    lines = Lines(["refund it"], interactive=False)
    talk = Talk("shop", None, command)
    Chat(Server([[pending()]]), lines, talk, lambda _: None).hold()
    assert f"run_1 waits: {command} --thread thread_1" in lines.shown


def test_thread_with_a_waiting_call_asks_about_it_first() -> None:
    server = Server([[pending()], said("done")])
    hold(server, Lines(["y"]), "thread_1")
    assert server.decisions() == [("approve", {})]


def test_thread_that_a_person_goes_to_asks_about_what_waits_there() -> None:
    server = Server([[pending()], said("done"), said("and more")])
    lines = Lines(["/thread thread_1", "y", "hi"])
    hold(server, lines)
    assert server.decisions() == [("approve", {})]
    assert lines.shown.index("done") < lines.shown.index("and more")


def test_thread_that_a_pipe_goes_to_ends_it_where_a_call_waits() -> None:
    lines = Lines(["/thread thread_1"], interactive=False)
    server = Server([[pending()]])
    hold(server, lines)
    assert "run_1 waits: layover chat --thread thread_1" in lines.shown
    assert lines.prompts[-1].startswith("approve ")


def test_thread_without_a_name_is_shown_and_nothing_is_asked() -> None:
    server = Server([])
    hold(server, Lines(["/thread"]), None)
    assert server.posts == []


def test_ctrl_c_cancels_the_run_and_follows_it_to_its_end() -> None:
    delta = {"type": "text-delta", "step": 1, "text": "one "}
    over = {"type": "finish", "status": "cancelled", "finish_reason": "cancelled", "usage": USAGE}
    server = Server([[delta], KeyboardInterrupt, [over]])
    lines = Lines(["hi", "/usage"])
    hold(server, lines)
    assert ("/runs/run_1/cancel", {}) in server.posts
    assert "cancelled: cancelled" in lines.shown
    assert "1 answers, 12 tokens, $0.000400" in lines.shown


def test_ctrl_c_while_a_run_is_asked_for_cancels_that_run() -> None:
    over = {"type": "finish", "status": "cancelled", "finish_reason": "cancelled", "usage": USAGE}
    server = Server([[over], said("hello")], {"/runs": [KeyboardInterrupt]})
    lines = Lines(["hi", "hi again"])
    hold(server, lines)
    first, same, second = server.keys
    assert first == same != second
    assert ("/runs/run_1/cancel", {}) in server.posts
    assert "cancelled: cancelled" in lines.shown
    assert "hello" in lines.shown


def test_second_ctrl_c_while_a_run_is_asked_for_ends_nothing() -> None:
    interrupts: list[ApiError | type[KeyboardInterrupt]] = [KeyboardInterrupt, KeyboardInterrupt]
    lines = Lines(["hi", "hi again"])
    hold(Server([said("hello")], {"/runs": interrupts}), lines)
    assert "/exit ends" in lines.shown
    assert "hello" in lines.shown


def test_ctrl_c_ends_a_pipe() -> None:
    lines = Lines(["hi"], interactive=False)
    with pytest.raises(KeyboardInterrupt):
        hold(Server([], {"/threads": [KeyboardInterrupt]}), lines)


def test_second_ctrl_c_leaves_the_run() -> None:
    server = Server([KeyboardInterrupt, KeyboardInterrupt])
    lines = Lines(["hi"])
    hold(server, lines)
    assert "run_1 waits: layover chat --thread thread_1" in lines.shown


def test_ctrl_c_at_the_prompt_ends_nothing() -> None:
    lines = Lines([KeyboardInterrupt, "hi"])
    hold(Server([said("hello")]), lines)
    assert "hello" in lines.shown


def test_repeated_step_is_told_and_its_text_counts_anew() -> None:
    start = {"type": "turn-start", "step": 1}
    delta = {"type": "text-delta", "step": 1, "text": "half"}
    lines = Lines(["hi"])
    hold(Server([[start, delta, start, *said("whole")]]), lines)
    assert lines.shown.index("the model starts this answer again") < lines.shown.index("whole")


def test_sub_agents_calls_are_shown_under_their_names() -> None:
    path = {"agent_path": ["shop", "billing"], "tool_name": "pay", "args": {}}
    lines = Lines(["hi"])
    hold(Server([[{"type": "tool-execution-start", **path}, *said("paid")]]), lines)
    assert "billing > -> pay()" in lines.shown


def test_words_of_a_sub_agent_are_a_note_and_no_part_of_the_answer() -> None:
    path = {"agent_path": ["shop", "billing"], "step": 1}
    inner = [
        {"type": "text-delta", "text": "to the top", **path},
        {**said("to the top")[0], **path},
    ]
    lines = Lines(["hi"])
    hold(Server([[*inner, *said("paid")]]), lines)
    assert "billing > to the top" in lines.shown
    assert "to the top" not in lines.shown
    assert "paid" in lines.shown


def test_event_of_an_unknown_type_is_left_out() -> None:
    lines = Lines(["hi"])
    hold(Server([[{"type": "invented-later"}, *said("fine")]]), lines)
    assert "fine" in lines.shown


def test_exit_ends_before_the_next_line() -> None:
    lines = Lines(["/exit", "hi"])
    hold(Server([]), lines)
    assert lines.typed == ["hi"]


def test_unknown_command_lists_the_known_ones() -> None:
    lines = Lines(["/what"])
    hold(Server([]), lines)
    assert "/memory" in lines.text
