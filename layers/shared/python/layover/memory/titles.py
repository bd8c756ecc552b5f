"""Titles of threads (BEHAVIOUR 13)."""

import re
from collections.abc import Iterable
from importlib.resources import files

from layover.declare.render import clean as storable
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt

MIN_WORDS = 4
MIN_CHARACTERS = 16
MAX_CHARACTERS = 80
_QUOTES = "\"'\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3}|_{1,3}|`{1,3})(?=\S)(.+?)(?<=\S)\1(?![\w*])")
"""Marks around words; neither the `_` of a name nor a lone `*` is one."""
_READ = 2_000
"""Characters of the message that the model reads."""


def source(messages: Iterable[Message]) -> Message | None:
    """The first user message that says enough to name a thread after."""
    for message in messages:
        text = message.text.strip()
        long_enough = len(text) >= MIN_CHARACTERS and len(text.split()) >= MIN_WORDS
        if message.role is Role.USER and long_enough:
            return message
    return None


def title_prompt(model: str, message: Message) -> Prompt:
    """The request for a title."""
    text = message.text.strip()[:_READ]
    asked = message.model_copy(update={"content": (TextPart(text=text),)})
    system = files("layover.memory").joinpath("prompts/title.md").read_text()
    return Prompt(model=model, system=system, messages=(asked,), task="title")


def clean(text: str) -> str | None:
    """One plain line of at most 80 characters; None where nothing is left."""
    text = re.sub(
        r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", " ", storable(text), flags=re.S | re.I
    )
    text = re.sub(r"```\w*", " ", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    line = _EMPHASIS.sub(r"\2", re.sub(r"^(?:#+|[-*>])\s+", "", lines[0]))
    line = re.sub(r"^title:\s*", "", line, flags=re.I)
    line = line.strip().strip(_QUOTES).strip()
    return line[:MAX_CHARACTERS].rstrip() if re.search(r"\w", line) else None
