"""Messages as Converse's turns: users and the assistant in alternation, each turn a list of blocks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from layover.context.results import shown_files
from layover.plugins.models import opaque, wire
from layover.plugins.models.call_ids import CallIds
from layover.plugins.models.family import Family
from layover.plugins.models.turns import DATA_URL, IS_A_FILE, Turns
from layover.values.message import FilePart, Message, Part, ProviderState, Role, TextPart
from layover.values.prompt import Prompt

Body = dict[str, Any]

CACHE_POINT: Body = {"cachePoint": {"type": "default"}}
REASONING = "reasoningContent"
AT = "at"
"""The number of blocks of other kinds that stood before a kept block of reasoning."""

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_VIDEOS = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/webm": "webm",
    "video/mpeg": "mpeg",
}
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
MAX_NAME = 100
MAX_DOCUMENTS = 5
"""Documents of a request. The newest are sent."""


def turns(
    prompt: Prompt, provider: str, family: Family, left_out: frozenset[str], *, caches: bool
) -> list[Body]:
    """Return the turns of a prompt. `provider`: the provider that is called, which gets its own state back;
    `caches`: whether cache points are wanted."""
    sendable = [m for m in prompt.messages if m.role is not Role.CUSTOM]
    points = family.caches if caches else frozenset()
    writer = _Turns(family, left_out, CallIds(provider, prompt.model))
    writer.too_many = _count_documents(sendable) - MAX_DOCUMENTS
    for at, message in enumerate(sendable):
        if "history" in points and prompt.run_id and message.run_id == prompt.run_id:
            # The blocks that a run adds to its input are not in the next run's history.
            writer.cache()
            points = points - {"history"}
        state = opaque.state_of(message, provider, prompt.model)
        writer.add(sendable, at, state)
    turns = writer.whole()
    if "last" in points and ("tools" in points or "text" in turns[-1]["content"][-1]):
        turns[-1]["content"].append(CACHE_POINT)
    return turns


def _count_documents(messages: Sequence[Message]) -> int:
    files = (file for message in messages for file in shown_files(message))
    # The URL of a file is long: its beginning has the type.
    types = (DATA_URL.match((part.url or "")[:200]) for part in files)
    return sum(match is not None and match[1].lower() in _DOCUMENTS for match in types)


class _Turns(Turns):
    """Converse's turns in the making."""

    def __init__(self, family: Family, left_out: frozenset[str], ids: CallIds) -> None:
        super().__init__(ids)
        self.too_many = 0
        """Documents at the beginning that are only named."""
        self._family = family
        self._left_out = left_out
        self._names: set[str] = set()

    def cache(self) -> None:
        """Mark the end of the part that is the same the next time."""
        if self._turns:
            self._turns[-1]["content"].append(CACHE_POINT)

    def _text(self, text: str) -> Body:
        return {"text": text}

    def _user(self, content: Sequence[Part]) -> Iterator[Body]:
        """Yield a user's blocks. A document comes with a text: otherwise Converse refuses it."""
        texts = documents = 0
        for part in content:
            if isinstance(part, TextPart) and part.text.strip():
                texts += 1
                yield self._text(part.text)
            elif isinstance(part, FilePart):
                block = self._file(part)
                texts, documents = texts + ("text" in block), documents + ("document" in block)
                yield block
        if documents and not texts:
            yield self._text(IS_A_FILE)

    def _assistant(
        self, message: Message, ids: Mapping[str, str], state: ProviderState | None
    ) -> list[Body]:
        """The reasoning that the model wants back, its text, and the calls that were answered: those that
        `ids` names."""
        blocks: list[Body] = []
        if text := message.text.rstrip():
            blocks.append({"text": text})
        for call in message.tool_calls:
            if call.tool_call_id in ids:
                blocks.append(
                    {
                        "toolUse": {
                            "toolUseId": ids[call.tool_call_id],
                            "name": wire.safe_name(call.tool_name),
                            "input": wire.arguments(call.args),
                        }
                    }
                )
        return self._with_reasoning(blocks, state) if blocks else []

    def _with_reasoning(self, blocks: list[Body], state: ProviderState | None) -> list[Body]:
        if state is None or REASONING in self._left_out:
            return blocks
        reasoning_blocks = state.fields.get(REASONING, [])
        for shift, thought in enumerate(reasoning_blocks):
            block = {name: value for name, value in thought.items() if name != AT}
            blocks.insert(thought[AT] + shift, {REASONING: block})
        return blocks

    def _takes_files(self, answer: wire.CallResult) -> bool:
        # Claude's and Nova's take both (botocore's model of `ToolResultContentBlock`), and Claude's take an
        # error of text only.
        return self._family.result_status and not answer.is_error

    def _result(self, wire_id: str, answer: wire.CallResult) -> Body:
        content = [self._text(answer.text)]
        if answer.parts and self._takes_files(answer):
            content = list(self._user(answer.parts))
        result: Body = {"toolUseId": wire_id, "content": content}
        if answer.is_error and self._family.result_status and "status" not in self._left_out:
            result["status"] = "error"
        return {"toolResult": result}

    def _file(self, part: FilePart) -> Body:
        match = DATA_URL.fullmatch(part.url or "")
        kind = match[1].lower() if match else ""
        source = {"source": {"bytes": match[2]}} if match else {}
        if kind in _IMAGES:
            return {"image": {"format": _IMAGES[kind], **source}}
        if kind in _DOCUMENTS and self.too_many > 0:
            self.too_many -= 1
        elif kind in _DOCUMENTS:
            name = self._name(part.name or "")
            return {"document": {"format": _DOCUMENTS[kind], "name": name, **source}}
        if kind in _VIDEOS:
            return {"video": {"format": _VIDEOS[kind], **source}}
        # No address is fetched, neither by Bedrock nor by Layover, and a request has few documents.
        return {"text": wire.named_only(part)}

    def _name(self, original_name: str) -> str:
        """Return a name that Converse accepts, and that no other document of the request has."""
        stem = original_name.rpartition(".")[0] or original_name
        plain = _UNSAFE_IN_NAME.sub(" ", stem).strip()[:MAX_NAME].strip() or "document"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain} ({number})"
        self._names.add(name)
        return name
