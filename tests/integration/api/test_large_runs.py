"""Runs that are larger than a function's answer (6 MB), on in-memory ports. In `make test` an answer takes an
eighth, and all texts have an eighth of their length."""

import base64
import gzip
import json
import random
import secrets
import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.api import call, response_limits
from functions.api.response_limits import limit_response
from integration.api.kit import USE, Api, Response
from layover import keys
from layover.context.transcript import response_messages
from layover.values.message import Message, Role, TextPart
from layover.values.runs.event import AgentEnd
from layover.values.runs.run import CallRecord, Status
from layover.values.runs.views import Run
from support.examples import share

GZIP = {"Accept-Encoding": "gzip, br"}
SHARE = share(8)
LAMBDA = 6 * 1024 * 1024 // SHARE
LONG = 2_000_000 // SHARE


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an answer takes."""
    most = response_limits.MAX_ANSWER // SHARE
    for module in (response_limits, call):
        monkeypatch.setattr(module, "MAX_ANSWER", most)
    monkeypatch.setattr(response_limits, "_MAX_BODY", LAMBDA - 16 * 1024)
    monkeypatch.setattr(response_limits, "_SURELY_FITS", most // 6)


def noise(length: int) -> str:
    """Return a text that cannot be compressed below half."""
    return secrets.token_hex(length // 2)


def body(answer: Response) -> Any:
    """The JSON of an answer that Lambda would have let through."""
    assert answer.status < 300, answer.body
    assert len(json.dumps(answer.raw)) <= LAMBDA
    if answer.raw["isBase64Encoded"]:
        return json.loads(gzip.decompress(base64.b64decode(answer.body)))
    return answer.json


async def step(
    api: Api, run_id: str, *results: Any, text: str = "", told: str | None = None
) -> None:
    """A model call whose tool calls are settled."""
    log = await api.world.take(run_id)
    index = len(log.snapshot.steps) + 1
    calls = [(f"c{index}-{i}", "look_up", {"order_id": "o"}) for i in range(len(results))]
    made = await api.world.step(log, text, *calls)
    for (call_id, name, args), result in zip(calls, results, strict=True):
        settled = CallRecord(
            key=keys.call_key(made.key, call_id),
            run_id=run_id,
            tool_call_id=call_id,
            tool_name=name,
            args=args,
            result=result,
            model_output=told,
        )
        await log.close_call(settled)


def large(api: Api, *results: Any, thread: str | None = None, text: str = "") -> str:
    """A finished run with these results, a step each."""

    async def made() -> str:
        run = await api.world.run(thread or (await api.world.thread()).id)
        for result in results:
            await step(api, run.id, result, text=text)
        await api.world.finish(run.id)
        return run.id

    return api.do(made())


def results(run: Any) -> list[Any]:
    """Return the tool results that the run shows."""
    return [
        p["result"] for m in run["messages"] for p in m["content"] if p["type"] == "tool_result"
    ]


def items(api: Api, url: str, headers: dict[str, str] | None = None) -> list[Any]:
    """All items of a list, page by page."""
    found, after = [], ""
    while True:
        page = body(api.get(f"{url}{after}", headers=headers))
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        after = f"&cursor={page['next_cursor']}"


@pytest.mark.parametrize("headers", [GZIP, {}], ids=["gzip", "identity"])
def test_a_run_that_does_not_fit_shows_head_and_tail_of_its_results(
    api: Api, headers: dict[str, str]
) -> None:
    whole = [noise(LONG) for _ in range(6)]
    run_id = large(api, *whole)
    run = body(api.get(f"/runs/{run_id}", headers=headers))
    assert run["truncated"] is True
    assert results(run) == [
        {
            "_truncated": True,
            "head": result[:2000],
            "tail": result[-2000:],
            "original_chars": LONG,
            "url": None,
        }
        for result in whole
    ]
    assert (run["status"], run["text"], len(run["messages"])) == ("success", "done", 13)
    assert body(api.post(f"/runs/{run_id}/cancel", headers=headers)) == run
    page = body(api.get(f"/threads/{run['thread_id']}/runs?limit=1", headers=headers))
    assert page == {"items": [run], "next_cursor": None}


@pytest.mark.parametrize("headers", [GZIP, {}], ids=["gzip", "identity"])
def test_a_run_just_below_the_limit_is_whole(api: Api, headers: dict[str, str]) -> None:
    whole = [noise(LONG), noise(LONG), noise(LONG), noise(LAMBDA - 3 * LONG - 20_000)]
    run_id = large(api, *whole)
    run = body(api.get(f"/runs/{run_id}", headers=headers))
    assert results(run) == whole
    assert "truncated" not in run


def test_what_counts_is_the_size_that_is_sent(api: Api) -> None:
    run_id = large(api, *["a" * LONG for _ in range(6)])
    whole = body(api.get(f"/runs/{run_id}", headers=GZIP))
    assert results(whole) == ["a" * LONG] * 6
    assert "truncated" not in whole
    assert body(api.get(f"/runs/{run_id}"))["truncated"] is True


def test_what_compression_makes_larger_is_sent_as_it_is(api: Api) -> None:
    """Random text of all printable characters grows in gzip and base64."""
    letters = "".join(c for c in string.printable[:94] if c not in '"\\').encode()
    table = bytes(letters[n % len(letters)] for n in range(256))
    text = random.Random(1).randbytes(6_100_000 // SHARE).translate(table).decode()
    run_id = large(api, text)
    answer = api.get(f"/runs/{run_id}", headers=GZIP)
    assert results(body(answer)) == [text]
    assert not answer.raw["isBase64Encoded"]


def test_a_run_of_many_results_keeps_all_its_messages(api: Api) -> None:
    count = 500 // SHARE

    async def made() -> str:
        run = await api.world.run((await api.world.thread()).id)
        await step(api, run.id, *(noise(12_600) for _ in range(count)))
        await api.world.finish(run.id)
        return run.id

    run = body(api.get(f"/runs/{api.do(made())}"))
    assert run["truncated"] is True
    assert len(run["messages"]) == count + 2


def test_a_run_of_long_texts_leaves_its_oldest_messages_out(api: Api) -> None:
    run_id = large(api, *["ok"] * 10, text="é" * (200_000 // SHARE))
    run = body(api.get(f"/runs/{run_id}"))
    assert run["truncated"] is True
    assert 4 < len(run["messages"]) < 21
    assert run["messages"][-1]["content"][0]["text"] == "done"
    whole = body(api.get(f"/runs/{run_id}", headers=GZIP))["messages"]
    assert run["messages"] == whole[-len(run["messages"]) :]


def test_one_text_that_fills_the_answer_alone_is_cut_itself(api: Api) -> None:
    text = "é" * (1_100_000 // SHARE)

    async def says() -> str:
        run = await api.world.run((await api.world.thread()).id)
        await api.world.finish(run.id, text)
        return run.id

    run_id = api.do(says())
    run = body(api.get(f"/runs/{run_id}"))
    assert run["truncated"] is True
    assert run["text"] == f"{text[:2000]}…{text[-2000:]}"
    assert run["status"] == "success"
    thread = f"/threads/{run['thread_id']}/messages"
    assert items(api, f"{thread}?limit=1", GZIP)[-1]["content"][0]["text"] == text
    assert items(api, f"{thread}?limit=1")[-1]["truncated"] is True


def test_a_cut_result_names_where_the_whole_is_kept(api: Api) -> None:
    def told(url: str, length: int = LONG) -> str:
        shown = {"_truncated": True, "head": "", "tail": "", "original_chars": length, "url": url}
        return json.dumps(shown)

    async def made() -> str:
        run = await api.world.run((await api.world.thread()).id)
        base = f"/runs/{run.id}/tool-calls"
        for words in (
            told(f"{base}/c1-0/result"),
            told(f"{base}/c2-0/result", LONG - 1),
            told(f"{base}/c1-0/result"),
            '{"_truncated": true, no JSON',
            '{"_truncated": true}',
        ):
            await step(api, run.id, noise(LONG), told=words)
        await api.world.finish(run.id)
        return run.id

    run_id = api.do(made())
    run = body(api.get(f"/runs/{run_id}"))
    assert [r["url"] for r in results(run)] == [
        f"/runs/{run_id}/tool-calls/c1-0/result",
        *[None] * 4,
    ]


def test_messages_of_sub_agents_are_left_out_before_the_runs_own() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def message(id: str, text: str = "hi") -> Message:
        content = (TextPart(text=text),)
        return Message(id=id, thread_id="t", role=Role.USER, content=content, created_at=now)

    def run(id: str, *messages: Message, children: tuple[Run, ...] = ()) -> Run:
        return Run(
            id=id,
            thread_id="t",
            agent="a",
            status=Status.SUCCESS,
            input=message("input"),
            messages=messages,
            children=children,
            created_at=now,
            updated_at=now,
        )

    low = run("low", message("low", noise(LONG)))
    child = run("child", *(message(f"m{i}", noise(LONG)) for i in range(3)), children=(low,))
    text, _ = limit_response(run("top", message("own"), children=(child,)), False)
    shown = json.loads(text)
    assert len(text) <= LAMBDA
    assert shown["truncated"] is True
    assert [m["id"] for m in shown["messages"]] == ["own"]
    [found] = shown["children"]
    assert (found["id"], found["messages"], found["truncated"]) == ("child", [], True)
    assert [(c["id"], c["messages"]) for c in found["children"]] == [("low", [])]


def test_a_page_of_runs_ends_where_it_is_full(api: Api) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    made = []
    for sizes in ([9], [LONG] * 4, [LONG], [LONG], [LONG], [10], [LONG] * 4, [11]):
        made.append(large(api, *[noise(s) for s in sizes], thread=thread))
        api.world.clock.advance(timedelta(seconds=1))
    seen, after, pages = [], "", []
    while True:
        page = body(api.get(f"/threads/{thread}/runs?limit=100{after}"))
        seen += [run["id"] for run in page["items"]]
        pages.append([run.get("truncated", False) for run in page["items"]])
        if page["next_cursor"] is None:
            break
        after = f"&cursor={page['next_cursor']}"
    assert seen == made[::-1]
    assert pages == [[False], [True], [False] * 3, [False], [True], [False]]


def test_long_arguments_of_calls_that_wait_are_cut_and_the_calls_can_be_decided(api: Api) -> None:
    args = [{"order_id": noise(170_000 // SHARE), "amount": 80} for _ in range(40)]

    async def waiting() -> str:
        run = await api.world.run((await api.world.thread()).id)
        log = await api.world.take(run.id)
        calls = [(f"c{i:02}", "refund", a) for i, a in enumerate(args)]
        made = await api.world.step(log, "one moment", *calls)
        for call_id, _, _ in calls:
            await api.world.suspend(log, made, call_id)
        return run.id

    run_id = api.do(waiting())
    run = body(api.get(f"/runs/{run_id}"))
    assert (run["status"], run["truncated"], len(run["pending"])) == ("suspended", True, 40)
    assert run["pending"][0]["args"]["_truncated"] is True
    assert run["pending"][0]["payload"] == {"type": "approval"}
    assert [item["args"] for item in items(api, "/approvals?limit=100")] == args
    answer = body(api.post(f"/runs/{run_id}/tool-calls/c00/approve", {"attempt": 1}))
    assert (len(answer["pending"]), answer["truncated"]) == (39, True)
    answer = body(api.post(f"/runs/{run_id}/tool-calls/c01/deny", {"attempt": 1, "reason": "no"}))
    assert (len(answer["pending"]), answer["truncated"]) == (38, True)
    assert (
        body(api.post(f"/runs/{run_id}/redrive", scope=f"{USE} layover/operate"))["truncated"]
        is True
    )
    assert body(api.post(f"/runs/{run_id}/cancel"))["status"] == "cancelled"


def test_the_last_event_of_a_large_run_arrives(api: Api) -> None:
    async def made() -> str:
        run = await api.world.run((await api.world.thread()).id)
        for _ in range(6):
            await step(api, run.id, noise(LONG))
        log = await api.world.take(run.id)
        messages = response_messages(log.snapshot)
        log.emit(AgentEnd(at=api.world.clock.now(), messages=messages))
        await log.flush()
        return run.id

    run_id = api.do(made())
    page = body(api.get(f"/runs/{run_id}/events"))
    event = page["items"][-1]
    assert (event["type"], event["truncated"], page["last_seq"]) == ("agent-end", True, 1)
    assert len(event["messages"]) == 12


def test_the_document_says_that_a_run_may_be_truncated(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    run = spec["components"]["schemas"]["Run"]
    assert "6 MB" in run["properties"]["truncated"]["description"]
    assert "truncated" not in run.get("required", ())
