"""Clients' own ids of messages, inside the ids of messages.

A page keeps its ids over a reload: what it reads back has the ids that it gave. A message's id is Layover's,
with the client's behind it, so that each version of an edited message has its own id."""

import re

_PLAIN = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_BEHIND = "~"


def with_client_id(message_id: str, client_id: str | None) -> str:
    """Return the id of a message for which a client has its own id. It contains the client's, unless
    that one is long or odd."""
    is_plain = client_id is not None and _PLAIN.fullmatch(client_id) is not None
    return f"{message_id}{_BEHIND}{client_id}" if is_plain else message_id


def shown_id(message_id: str) -> str:
    """Return the id by which a client knows a message: its own, or else the message's."""
    return message_id.partition(_BEHIND)[2] or message_id
