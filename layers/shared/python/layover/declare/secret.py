"""`secret`: a value that tools need and nobody reads, such as the key of a shop's API."""

import asyncio
import logging
import os
import re
import time
from threading import Lock
from typing import Any

from layover.declare.schemas import checks
from layover.errors import ConfigurationError, RetryableError
from layover.ports import secrets

logger = logging.getLogger("layover")

MAX_AGE_S = 300.0
"""Seconds for which a value that was read from AWS is used."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secret:
    """A secret of tools, which `secret` makes. It shows its name and never its value.

    Attributes:
        name: The variable that has the value, or on AWS says where it is.

    Example:
        ```python
        from layover import Secret, secret

        keys: dict[str, Secret] = {"shop": secret("SHOP_KEY"), "bank": secret("BANK_KEY")}
        assert keys["bank"].name == "BANK_KEY"
        ```
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = Lock()
        self._value: tuple[str, str] | None = None
        """The place at which it was read, and the value."""
        self._read_at = 0.0

    def get(self, *, fresh: bool = False) -> str:
        """Return the value, for a tool that is a plain function. It blocks while AWS is asked, which it is
        after five minutes: a value that was rotated is used from then on.

        Args:
            fresh: True: read it anew now, for example after a service has refused the value. Callers that
                wait at the same time share one request.

        Raises:
            ConfigurationError: If the variable, the parameter or the secret does not exist or is empty.
            RetryableError: If AWS does not answer. A value that was read before is used instead, unless
                `fresh` is True.
        """
        place = self._place()
        if place is None:
            return self._of_variable()
        began = time.time()
        if (value := self._usable(place, began, fresh)) is not None:
            return value
        with self._lock:
            # Somebody else may have read it while this call waited.
            if (value := self._usable(place, began, fresh)) is not None:
                return value
            return self._ask(place, fresh)

    async def aget(self, *, fresh: bool = False) -> str:
        """Return the value, for an async tool. The event loop goes on while AWS is asked.

        Args:
            fresh: True: read it anew now, as in `get`.

        Raises:
            ConfigurationError: If the variable, the parameter or the secret does not exist or is empty.
            RetryableError: If AWS does not answer, as in `get`.
        """
        place = self._place()
        if place is None or self._usable(place, time.time(), fresh) is not None:
            return self.get()
        return await asyncio.to_thread(self.get, fresh=fresh)

    def __repr__(self) -> str:
        return f"secret({self.name!r})"

    def __format__(self, spec: str) -> str:
        # Else a header would silently have the name in it.
        raise TypeError(f"{self!r} is not a text: use its get()")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Secret, (self.name,))

    def _place(self) -> str | None:
        """Return the place at which AWS has the value; None if the variable has the value itself."""
        return self._of_variable() if secrets.is_on_aws(self.name) else None

    def _of_variable(self) -> str:
        # The end of the line is the file's or the console's from which the value comes.
        value = os.environ.get(self.name, "").rstrip("\r\n")
        if not value:
            raise ConfigurationError(
                f"{self!r} has no value: set the variable {self.name}, for example in .env, or on AWS "
                "name it in tool_secrets of the stage's settings"
            )
        return value

    def _usable(self, place: str, began: float, fresh: bool) -> str | None:
        """Return the value that was read, if it may still be used. `began`: when its reader came, in seconds
        of the clock that goes on while Lambda has frozen the process."""
        if self._value is None or self._value[0] != place:
            return None
        oldest = began if fresh else began - MAX_AGE_S
        return self._value[1] if self._read_at >= oldest else None

    def _ask(self, place: str, fresh: bool) -> str:
        asked_at = time.time()
        try:
            value = secrets.read(place).rstrip("\r\n")
        except RetryableError:
            if fresh or self._value is None or self._value[0] != place:
                raise
            logger.warning("%r was not read: its last value is used", self)
            return self._value[1]
        if not value:
            raise ConfigurationError(f"{self!r} is empty at {place}: put its value there")
        self._value, self._read_at = (place, value), asked_at
        return value


def secret(name: str) -> Secret:
    """Return a secret that tools read when they need it, and that no log, prompt or `repr` shows.

    On one machine it is the variable of this name, for example from `.env`. On AWS, `tool_secrets` of the
    settings says which SSM parameter (SecureString) or secret of Secrets Manager has it.

    Args:
        name: The name of a variable: letters, digits and `_`.

    Raises:
        DefinitionError: If no variable can have the name.

    Example:
        ```python
        from layover import secret, tool

        SHOP_KEY = secret("SHOP_KEY")


        @tool
        async def stock(article: str) -> str:
            \"\"\"Return how many of an article there are.\"\"\"
            key = await SHOP_KEY.aget()
            return f"{len(key) > 0}"


        assert repr(SHOP_KEY) == "secret('SHOP_KEY')"
        ```
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise checks.fail("secret: name", "the name of a variable, such as SHOP_KEY", name)
    return Secret(name)
