"""Outages of the database of a system that many stories use at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.kills.proxy import PostgresProxy

MAX_WAIT_S = 120.0
"""For the other stories: each takes some 10 s from its beginning to its outage, and from there to its end."""


class Outages:
    """Stories have their outages together. One that begins, or that is judged, has the database: it takes
    the same way whatever befalls the others."""

    def __init__(self, postgres: PostgresProxy) -> None:
        self._postgres = postgres
        self._changed = threading.Condition()
        self._stories = 0
        """Under way, wherever they are."""
        self._ready = 0
        """Those of them that wait for the others before their outage."""
        self._away = 0
        """Those of them that are in it."""
        self._round = 0

    @contextmanager
    def story(self) -> Iterator[None]:
        """A story from its beginning, for which it waits until no outage is left."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._away, MAX_WAIT_S), (
                "an outage has no end"
            )
            self._stories += 1
        try:
            yield
        finally:
            with self._changed:
                self._stories -= 1
                self._begin_round()

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The part of a story that has an outage. It begins when every story under way is as far, and the
        database is back when the last of them is through."""
        with self._changed:
            mine = self._round
            self._ready += 1
            self._begin_round()
            assert self._changed.wait_for(lambda: self._round > mine, MAX_WAIT_S), "others are late"
        try:
            yield
        finally:
            with self._changed:
                self._away -= 1
                self._postgres.up = not self._away
                self._changed.notify_all()

    def cut(self) -> None:
        """Cut the functions off the database, in an outage."""
        self._postgres.go_down()

    def _begin_round(self) -> None:
        if self._ready and self._ready == self._stories:
            self._away, self._ready = self._ready, 0
            self._round += 1
        self._changed.notify_all()
