"""Recorded logs of runs: what every place that shows events is tested with.

`python -m support.logs` (with `tests` on the path) makes them again."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from layover.values.runs.event import LoggedEvent, load_events

FOLDER = Path(__file__).parent
Json = dict[str, Any]


@dataclass(frozen=True)
class Log:
    """The events of one run, as `GET /runs/{id}/events` answers them."""

    name: str
    about: str
    items: tuple[Json, ...] = field(repr=False)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.items[0]["run_id"])

    @cached_property
    def events(self) -> list[LoggedEvent]:
        """The events as the journal reads them."""
        return load_events(json.dumps(self.items), self.run_id, 1)


def load(name: str) -> Log:
    """Return the log of this name."""
    text = json.loads((FOLDER / f"{name}.json").read_text())
    return Log(name, text["about"], tuple(text["events"]))


def text_of(about: str, events: list[Json]) -> str:
    """Return a log's file: an event a line."""
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    return f'{{"about": {json.dumps(about)}, "events": [\n{lines}\n]}}\n'


LOGS = tuple(load(path.stem) for path in sorted(FOLDER.glob("*.json")))
