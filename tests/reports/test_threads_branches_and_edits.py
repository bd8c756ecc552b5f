"""Threads: their branches, edited messages, answers that are asked for again, and what is stopped or
deleted."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta

from layover import Agent, tool
from layover.values.runs.run import Status
from reports import Found, report
from reports.kit import (
    Asked,
    Json,
    Page,
    Provider,
    calls,
    delta,
    events,
    in_turn,
    page_of,
    said,
    user,
)
from support.providers.odd import OddResponse
from support.worlds.loops import LoopClock, played
from support.worlds.runs import ANN

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er"
    "kJggg=="
)


def numbered(request: Json, n: int) -> bytes:
    """Answer each request with its number."""
    return said(f"answer {n}")


def shown(page: Page) -> list[str]:
    """The texts of a page that is loaded."""
    return [part["text"] for m in page.loaded() for part in m["parts"] if "text" in part]


class Stopped(OddResponse):
    """An answer that goes on after the user has stopped it."""

    def __init__(self, stop: Callable[[], Awaitable[None]]) -> None:
        super().__init__(200, "text/event-stream", [])
        self._stop = stop

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield events(delta({"role": "assistant", "content": "The first half"}), done=False)
        await asyncio.sleep(1)
        await self._stop()
        await asyncio.sleep(60)


async def stop_newest(asked: Asked) -> None:
    """Cancel the newest run, as its user does."""
    journal = asked.bench.plain.journal
    (run_id,) = (await journal.runs.page_ids(ANN, "t1", 1, None)).items
    await journal.commands.request_cancel(ANN, run_id, timedelta(0))


@report(
    "langgenius/dify#36808, nesquena/hermes-webui#893, Boise-State-Development/agentcore-public-stack#541",
    Found.LEFT,
    "a step is a whole reply of a model: its calls, thoughts and usage come with its end, and providers take "
    "no half of one back",
)
def test_the_text_that_was_written_before_a_stop_stays() -> None:
    """A user stops an answer while it is written: what they have read is there after a reload."""

    async def scene() -> None:
        asked: Asked
        provider = Provider(lambda *_: Stopped(lambda: stop_newest(asked)))
        asked = Asked(Agent("desk", model="m"), provider, clock=LoopClock())
        run = await asked.say("tell me")
        assert run.status is Status.CANCELLED
        assert [m.text for m in await asked.bench.stored()] == ["tell me", "The first half"]

    played(scene())


@report("pydantic/pydantic-ai#6319", Found.RIGHT)
def test_a_thread_goes_on_after_a_run_was_stopped_while_its_tool_ran() -> None:
    """A run is stopped while its tool runs: the next message is answered, and each call has a result."""

    async def scene() -> None:
        @tool
        async def look() -> str:
            """Look."""
            await stop_newest(asked)
            await asyncio.sleep(60)
            return "seen"

        provider = Provider(in_turn(calls("look", {}), said("Hello.")))
        asked = Asked(Agent("desk", model="m", tools=[look]), provider, clock=LoopClock())
        assert (await asked.say("look")).status is Status.CANCELLED
        run = await asked.say("hello?")
        assert (run.status, run.text) == (Status.SUCCESS, "Hello.")
        _, call, result, _ = provider.requests[-1]["messages"]
        assert [each["id"] for each in call["tool_calls"]] == [result["tool_call_id"]]
        assert "Cancelled" in result["content"]

    played(scene())


@report("unslothai/unsloth#10163, onyx-dot-app/onyx#7366", Found.RIGHT)
def test_the_first_message_is_edited_after_a_reload() -> None:
    """The first message is edited: a page that is loaded again, and the next prompt, have nothing of the
    conversation that it replaced."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        page.chat(user("first", "u1"))
        page.chat(user("second", "u2"))
        page.chat(user("FIRST", "u3"), messageId="u1")
        assert shown(page) == ["FIRST", "answer 3"]
        page.chat(user("third", "u4"))
        assert [text for _, text in page.prompt()] == ["FIRST", "answer 3", "third"]


@report("danny-avila/LibreChat#2345, skalesapp/skales#197", Found.RIGHT)
def test_a_picture_stays_with_a_message_that_is_edited() -> None:
    """A message with a picture is loaded again, and edited or answered once more: the model sees the
    picture."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        picture = {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": PIXEL}
        asked = user("what is it?")
        page.chat({**asked, "parts": [*asked["parts"], picture]})
        _, file = page.loaded()[0]["parts"]
        edited = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "colour?"}, file]}
        page.chat(edited, messageId="u1")
        for _ in range(2):
            ((_, content),) = page.prompt()
            assert [part["type"] for part in content] == ["image_url", "text"]
            assert content[0]["image_url"]["url"] == PIXEL
            answer = page.loaded()[1]
            page.chat(edited, trigger="regenerate-message", messageId=answer["id"])


@report(
    "openclaw/openclaw#113073",
    Found.LEFT,
    "only the last message is read, so that a page may send it without the others: a message does not say "
    "behind which answer it stands",
)
def test_a_tab_that_shows_a_replaced_branch_is_not_answered_on_another() -> None:
    """A tab shows a branch that another tab has replaced: its message is answered behind what it shows, or
    refused."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        page.chat(user("first", "u1"))
        old = page.loaded()
        page.chat(user("FIRST", "u2"), messageId="u1")
        body = {"id": "chat-1", "messages": [*old, user("and?", "u3")], "trigger": "submit-message"}
        answered = page.stream("POST", "/chat/desk", body)
        if answered["statusCode"] == 200:
            page.read(answered)
            assert [text for _, text in page.prompt()] == ["first", "answer 1", "and?"]


@report("langchain-ai/opengpts#310, Chainlit/chainlit#2731", Found.RIGHT)
def test_a_page_of_a_deleted_thread_is_told_so() -> None:
    """A thread is deleted while a page shows it: the page's next message does not bring it back."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        thread_id = page.chat(user("my secret"))[0]["messageMetadata"]["thread_id"]
        assert page.api.send("DELETE", f"/threads/{thread_id}").status == 204
        page.chat(user("and?", "u2"), status=404)
        assert page.api.get("/threads").json["items"] == []


@report("CopilotKit/OpenBot#72", Found.RIGHT)
def test_a_chat_that_has_never_run_has_no_messages() -> None:
    """A page loads a chat that nobody has written to: it has no messages, and nothing to follow."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        assert page.loaded("new") == []
        assert page.stream("GET", "/chat/desk/new/stream")["statusCode"] == 204


@report("cloudflare/agents#2028, janhq/jan#4422", Found.RIGHT, held_back=True)
def test_another_answer_is_given_without_the_one_that_it_replaces() -> None:
    """An answer is asked for again: the model reads nothing of the one that it replaces."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        page.chat(user("an airline?"))
        answer = page.loaded()[1]
        page.chat(user("an airline?"), trigger="regenerate-message", messageId=answer["id"])
        assert page.prompt() == [("user", "an airline?")]
        assert shown(page) == ["an airline?", "answer 2"]


@report("mastra-ai/mastra#4898", Found.RIGHT, held_back=True)
def test_messages_of_one_moment_keep_their_order() -> None:
    """Questions and answers of the same moment are listed in the order in which they were said."""
    with page_of(Agent("desk", model="m"), Provider(numbered)) as page:
        for n in range(1, 5):
            page.chat(user(f"question {n}", f"u{n}"))
        assert shown(page) == [
            f"{what} {n}" for n in range(1, 5) for what in ("question", "answer")
        ]
