"""A sealer for one process, whose stores end with it: texts stay readable, and contexts count."""

import json
from collections.abc import Mapping
from hashlib import sha256

_KIND = "open1."


class InMemorySealer:
    """`ports.Sealer` that seals nothing. It refuses whatever a real one would refuse."""

    async def seal(self, text: str, context: Mapping[str, str]) -> str:
        """See `ports.Sealer`."""
        document = json.dumps([text, _digest(text, context)])
        return _KIND + document

    async def open(self, sealed: str, context: Mapping[str, str]) -> str:
        """See `ports.Sealer`."""
        try:
            text, digest = json.loads(sealed[len(_KIND) :])
            if not sealed.startswith(_KIND) or digest != _digest(text, context):
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            # Without a cause: it would show what was sealed.
            raise ValueError("this was not sealed here, or for something else") from None
        return str(text)


def _digest(text: str, context: Mapping[str, str]) -> str:
    whole = json.dumps([text, sorted(context.items())])
    return sha256(whole.encode()).hexdigest()
