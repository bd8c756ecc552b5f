"""Titles of threads (docs/behaviour.md#titles)."""

import re
import unicodedata
from collections.abc import Iterable

from layover.plugins.memory.learns.requests import memory_prompt
from layover.plugins.memory.learns.text.answers import THINKING
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt
from layover.values.text import sanitise

MIN_WORDS = 4
MIN_CHARACTERS = 16
MAX_CHARACTERS = 80
_QUOTES = "\"'\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
# Thai, Lao, Burmese, Khmer, kana and Han: no blanks between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003fffd]"
)
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3}|_{1,3}|`{1,3}|~~)(?=\S)(.+?)(?<=\S)\1(?![\w*])")
"""Marks around words. The `_` of a name and a lone `*` do not count."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*\)")
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
"""Some providers omit the opening tag."""
_ANNOUNCED = re.compile(
    "^(?:here(?:['\u2019]s| is) (?:the |a |your )?)?title\\s*[:\uff1a]\\s*", re.IGNORECASE
)
_JOINER = "\u200d"
_JOINED = frozenset({_JOINER, *map(chr, range(0x1F3FB, 0x1F400))})
"""The joiner of pictures, and the colours of skin, which belong to the picture before them."""
_MAX_READ = 2_000
"""Characters of the message that the model reads."""
_MAX_ANSWER = 1_000
"""Characters of an answer that are examined: finding marks takes quadratic time."""


def source(messages: Iterable[Message]) -> Message | None:
    """Return the first user message with enough text to name a thread after."""
    for message in messages:
        text = message.text.strip()
        long_enough = len(text) >= MIN_CHARACTERS and _words(text) >= MIN_WORDS
        if message.role is Role.USER and long_enough and not message.refused:
            return message
    return None


def title_prompt(model: str, message: Message) -> Prompt:
    """Return the request for a title."""
    text = message.text.strip()[:_MAX_READ]
    user_message = message.with_content((TextPart(text=text),))
    return memory_prompt("title", model, user_message)


def parse_title(text: str) -> str | None:
    """Return one plain line of at most 80 characters; None if nothing is left."""
    text = _THOUGHT.sub(" ", THINKING.sub(" ", sanitise(text))).strip()[:_MAX_ANSWER]
    lines = [_plain(line) for line in re.sub(r"```\w*", " ", text).splitlines() if line.strip()]
    # A title is often announced on a line before it.
    while len(lines) > 1 and (not lines[0] or lines[0].endswith((":", "\uff1a"))):
        del lines[0]
    line = _ANNOUNCED.sub("", lines[0]) if lines else ""
    line = re.sub(rf"(?<=[{_QUOTES}])[.\u3002]$", "", line)
    line = line.strip().strip(_QUOTES).strip()
    return _clip(line, MAX_CHARACTERS).rstrip() if re.search(r"\w", line) else None


def _clip(text: str, length: int) -> str:
    """Return at most `length` characters of a text, cut between two that people see: before marks, and what
    a joiner or a colour of skin makes one picture of."""
    while 0 < length < len(text) and (
        unicodedata.category(text[length])[0] == "M"
        or text[length] in _JOINED
        or text[length - 1] == _JOINER
    ):
        length -= 1
    return text[:length]


def _plain(line: str) -> str:
    """Return a line without markdown."""
    line = _LINK.sub(r"\1", re.sub(r"^(?:#+|[-*>])\s+", "", line.strip()))
    while (bare := _EMPHASIS.sub(r"\2", line)) != line:
        line = bare
    return line.strip()


def _words(text: str) -> int:
    """Count the words of a text; in a script without separators, each character is one."""
    return len(text.split()) + len(_UNSPACED.findall(text))
