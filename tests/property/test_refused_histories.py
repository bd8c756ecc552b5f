"""Random histories of one thread whose agent refuses messages: no request to any model has the text of a
refused one, and nothing else is lost, whatever waits, branches, is cancelled or dies in between."""

import re
from collections import Counter
from typing import Any

from layover import Hook, Memory, ModelRequest, ObservationalMemory, Refuse
from layover.values.message import Role
from layover.values.prompt import Prompt
from support.examples import share
from support.histories import acts_of, play_in
from support.worlds.loops import played
from support.worlds.runs import ANN
from support.worlds.talk import Talk

_OUTLAWED = re.compile(r"\b(hi|psst) \d*[0369]\b")


class Guard(Hook):
    """Refuses greetings with some numbers."""

    once_per_input = True

    async def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
        texts = [message.text for message in request.unanswered]
        bad = [text for text in texts if _OUTLAWED.fullmatch(text)]
        return Refuse(f"{len(bad)} of {len(texts)}", "No.") if bad else None


def _texts(prompt: Prompt) -> list[str]:
    parts = [m.text for m in prompt.messages]
    return [line for text in (*parts, prompt.system or "") for line in text.splitlines()]


async def _scene(seed: int, total: Counter[str]) -> None:
    options: dict[str, Any] = {"hooks": [Guard()]}
    if seed % 2:
        compaction = ObservationalMemory(message_tokens=40)
        options["memory"] = Memory(compaction=compaction, last_messages=2, titles=True)
    talk = Talk(**options)
    total.update(await play_in(talk, acts_of(seed)))
    thread = talk.threads.find(ANN, "t1")
    assert thread is not None
    sent = {line for p in talk.model.prompts for line in _texts(p) if _OUTLAWED.search(line)}
    assert not sent, f"{sent} were to be refused"
    marked = [m for m in thread.messages.values() if m.refused]
    assert all(m.role is Role.USER for m in marked)
    # What stood with it is refused, too: every branch goes on without it.
    before = len(talk.model.prompts)
    parents = {m.parent_id for m in thread.messages.values()}
    for n, leaf in enumerate([id for id in thread.messages if id not in parents]):
        await talk.say(f"on {n}", parent_id=leaf)
        await talk.rest()
    refused = {m.text for m in marked}
    assert len(talk.model.prompts) > before or not thread.messages
    leaked = refused & {line for p in talk.model.prompts[before:] for line in _texts(p)}
    assert not leaked, f"{leaked} were refused and sent to a model"
    total["refused"] += len(refused)
    total["compacted"] += sum(prompt.task == "observer" for prompt in talk.model.prompts)


def test_no_model_is_shown_what_was_refused_in_any_history() -> None:
    total: Counter[str] = Counter()
    for seed in range(40 // share(2)):
        try:
            played(_scene(seed, total))
        except BaseException as error:
            error.add_note(f"history {seed}: {acts_of(seed)}")
            raise
    happened = ("refused", "aside", "deaths", "branches", "compacted")
    assert min(total[each] for each in happened) > 5 // share(2), total
