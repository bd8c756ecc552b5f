"""Slack's Block Kit: texts that stay texts, and the names that buttons and forms come back with.

Models, users and approvers write parts of every message. Slack reads links, mentions and broadcasts between
`<` and `>`, so these two and `&` are escaped in all of them, and a text that is not ours is `plain_text`,
which has no formatting either."""

import json
from dataclasses import dataclass
from typing import Any, Self

from layover.approvals.decide import Verdict
from layover.keys import can_be_id
from layover.values.base import compact_json

Json = dict[str, Any]

MAX_TEXT = 3_000
"""Characters of a text object."""
MAX_HEADER = 150
MAX_FIELD = 2_000
MAX_FIELDS = 10
"""Texts of one section that stand in two columns."""
MAX_BUTTON_VALUE = 2_000
MAX_METADATA = 3_000
"""Characters that a form carries for whoever opened it."""
MAX_TITLE = 24
MAX_URL = 3_000

APPROVE = "layover_approve"
DENY = "layover_deny"
OPEN_CONSOLE = "layover_console"
"""A link. Slack reports that somebody has followed it, which decides nothing."""
FORMS = {
    "layover_approve_form": Verdict.APPROVE,
    "layover_deny_form": Verdict.DENY,
    "layover_answer_form": Verdict.RESUME,
}
"""Buttons that open a form, and what the form decides."""
FORM = "layover_form"
"""The form's name when it comes back."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str, limit: int = MAX_TEXT) -> str:
    """Return a text in which Slack finds no link, mention or broadcast. A text longer than `limit` is cut
    between two characters, never in an escape, and says so. Slack counts characters as UTF-16 does."""
    pieces: list[str] = []
    size = 0
    for mark in text:
        piece = _ENTITIES.get(mark, mark)
        size += units(piece)
        if size > limit:
            return _cut(pieces, limit)
        pieces.append(piece)
    return "".join(pieces)


def units(text: str) -> int:
    """Return the length of a text as Slack counts it: as UTF-16 does."""
    return len(text) + sum(mark > "\uffff" for mark in text)


def _cut(pieces: list[str], limit: int) -> str:
    size = sum(map(units, pieces))
    while size > limit - 1:
        piece = pieces.pop()
        size -= units(piece)
    return "".join([*pieces, "…"])


def fits(text: str) -> bool:
    """Return whether a text object takes the whole text."""
    return len(text) <= MAX_TEXT and escape(text) == escape(text, MAX_TEXT * MAX_TEXT)


def sections(text: str) -> list[Json]:
    """Return blocks with a text, in which no line begins that the text does not begin: each has as many whole
    lines as it takes, and a line that is longer than a block is cut."""
    groups: list[str] = []
    for line in text.splitlines():
        if groups and fits(both := f"{groups[-1]}\n{line}"):
            groups[-1] = both
        else:
            groups.append(line)
    return [{"type": "section", "text": plain(each)} for each in groups]


def plain(text: str, limit: int = MAX_TEXT) -> Json:
    """Return a text object without formatting. Slack takes no empty text."""
    return {"type": "plain_text", "text": escape(text, limit) or " ", "emoji": False}


def label(text: str, limit: int = MAX_TEXT) -> Json:
    """Return a text object with one of our own words in bold."""
    return {"type": "mrkdwn", "text": f"*{escape(text, limit - 2)}*", "verbatim": True}


@dataclass(frozen=True)
class CallRef:
    """The call and the attempt that a button or a form is about. It gives nobody a right."""

    run_id: str
    tool_call_id: str
    attempt: int

    def encode(self, **more: str) -> str:
        """Return it as the text that a button or a form carries."""
        ids = {"run": self.run_id, "call": self.tool_call_id, "attempt": self.attempt}
        return compact_json({**ids, **more})

    @classmethod
    def decode(cls, text: object) -> tuple[Self, Json]:
        """Return it, and what else the text says. Raises ValueError for any other text."""
        fields = json.loads(text) if isinstance(text, str) and len(text) <= MAX_METADATA else None
        if not isinstance(fields, dict):
            raise ValueError("not the reference of a call")
        run_id, call_id, attempt = (fields.pop(name, None) for name in ("run", "call", "attempt"))
        ids = [each for each in (run_id, call_id) if isinstance(each, str) and can_be_id(each)]
        if len(ids) < 2 or type(attempt) is not int:
            raise ValueError("not the reference of a call")
        return cls(ids[0], ids[1], attempt), fields
