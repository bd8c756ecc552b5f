"""Observations that somebody else puts into the user's mouth (docs/behaviour.md#observation-lines). Pure."""

import re
from collections.abc import Sequence

from layover.lazy import lazy_pattern
from layover.plugins.memory.learns.text.evidence import Witness
from layover.plugins.memory.learns.text.reading import render_value
from layover.values.memory.compaction import Observation
from layover.values.message import Message, Role, ToolResultPart

_OF_USER = lazy_pattern(
    r"^\W*(?:(?:the |this )?user|(?:der |die )?(?:be)?nutzer(?:in)?|l['\u2019](?:utilisat(?:eur|rice)|utente)"
    r"|(?:el |la |o |a )?(?:usuari[oa]|usuári[oa]|utilizador[a]?))\b|^\W*(?:用户|用戶|ユーザー)",
    re.IGNORECASE,
)


def without_planted(
    observations: Sequence[Observation], messages: Sequence[Message]
) -> tuple[Observation, ...]:
    """Return the observations without those that say of the user, word for word, what only a tool's result or
    a text that the user quotes says. Who plants such a sentence wants it to be the user's."""
    if not any(_OF_USER.search(one.text) for one in observations):
        return tuple(observations)
    own = [Witness(m.text) for m in messages if m.role is Role.USER]
    others = [Witness(text) for m in messages for text in _results(m)]

    def is_planted(text: str) -> bool:
        if not _OF_USER.search(text) or any(w.own_piece(text) for w in own):
            return False
        return any(w.piece(text) for w in (*own, *others))

    return tuple(one for one in observations if not is_planted(one.text))


def _results(message: Message) -> list[str]:
    results = (p.result for p in message.content if isinstance(p, ToolResultPart))
    return [r if isinstance(r, str) else render_value(r) for r in results]
