"""Shared by the commands of operators: pages of lists, moments, questions."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from layover.desk.cli.client import USAGE, Api
from layover.desk.failures import CommandFailed

Json = dict[str, Any]
Who = Callable[[], tuple[str, str]]
"""URL and token."""
PAGE = 100
"""The most items of one answer."""
_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def items_of(api: Api, path: str, wishes: Mapping[str, object], limit: int) -> Iterator[Json]:
    """Yield up to `limit` items of a list, page by page. Raises ApiError."""
    left, cursor = limit, ""
    while left > 0:
        query = {**wishes, "limit": min(PAGE, left)}
        page = api.get(path, **query, **({"cursor": cursor} if cursor else {}))
        yield from page["items"]
        left -= len(page["items"])
        cursor = page["next_cursor"] or ""
        if not cursor:
            return


def moment_of(text: str, now: datetime | None = None) -> str:
    """Return the moment that `2h`, `30m` or `7d` ago was, as the API takes it; any other text as it is: the
    API judges it. `now`: None is this machine's."""
    ago = _AGO.fullmatch(text)
    if ago is None:
        return text
    try:
        at = (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    except OverflowError as error:
        raise CommandFailed(
            f"{text} ago is before all time: write for example 2h", USAGE
        ) from error
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def second_of(at: str) -> str:
    """Return a time of the API to the second: `2026-01-31T12:00:00Z`."""
    return f"{at[:19]}Z"


def confirm(question: str, *, yes: bool) -> None:
    """Return if the person says yes, or the command line does. Raises CommandFailed otherwise: without an
    answer nothing is done."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{question} Nobody is here to answer: add --yes", USAGE)
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was done", 1)
