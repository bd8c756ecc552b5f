"""`layover ops tail`: runs of all users as they begin, wait and end."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from urllib.parse import quote

from layover.desk.cli.client import NO_ANSWER, Api, ApiError
from layover.desk.cli.ops.asking import Json, Who, items_of, second_of
from layover.desk.cli.ops.runs import error_of, waits_of
from layover.desk.failures import report_failure

PAUSE_S = 3.0
"""Seconds between two looks."""
MAX_WATCHED = 100
"""Runs of each state that one look lists: the newest."""
_LIVE = ("queued", "running", "suspended")
_OVERLAP = timedelta(seconds=30)
"""The index of the lists is a moment late: a look takes in runs from a moment before the last one."""


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


@report_failure
def tail(
    who: Who,
    filters: Mapping[str, str],
    lines: int,
    *,
    failed: bool,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], datetime] = utc_now,
) -> int:
    """Print a line for each change of a run, until it is interrupted. `filters`: `agent`, `owner`. `lines`:
    those of runs from before. `failed`: only failures. The exit code."""
    wishes = {name: value for name, value in filters.items() if value}
    watch = Watch(lambda: Api(*who()), wishes, now)
    try:
        _print(watch.begin(lines, failed=failed))
        while True:
            sleep(PAUSE_S)
            _print(run for run in _look(watch) if not failed or run["status"] == "failed")
    except KeyboardInterrupt:
        return 0


def _print(runs: Iterable[Json]) -> None:
    for run in runs:
        # At once, also into a pipe.
        print(_line(run), flush=True)


def _look(watch: "Watch") -> list[Json]:
    """Return what has changed; nothing where the API does not answer: the next look asks it again. Raises
    ApiError for a refusal."""
    try:
        return watch.look()
    except ApiError as error:
        if error.exit_code != NO_ANSWER:
            raise
        print(f"layover: {error}; asked again", file=sys.stderr)
        return []


@dataclass
class Watch:
    """The runs that were seen, as they were then. `connect`: with a token that is renewed where it has to be:
    somebody may watch for days."""

    connect: Callable[[], Api]
    wishes: Mapping[str, object]
    now: Callable[[], datetime]
    _seen: dict[str, Json] = field(default_factory=dict)
    _since: datetime = field(init=False)

    def begin(self, lines: int, *, failed: bool) -> list[Json]:
        """Return the newest `lines` runs, the oldest first, and remember what is there."""
        api, self._since = self.connect(), self.now()
        newest = {"status": "failed"} if failed else {}
        before = list(items_of(api, "/operate/runs", {**self.wishes, **newest}, lines))
        for run in (*self._listed(api), *before):
            self._seen[run["id"]] = run
        return before[::-1]

    def look(self) -> list[Json]:
        """Return the runs whose state is another one than at the last look. Raises ApiError: then the next
        look tells."""
        api, began = self.connect(), self.now()
        listed = {run["id"]: run for run in self._listed(api)}
        # A run that is over leaves the lists of those that are not: it is asked for by its id.
        left = [
            run_id
            for run_id, run in self._seen.items()
            if run["status"] in _LIVE and run_id not in listed
        ]
        ended = [run for run_id in left if (run := self._find(api, run_id)) is not None]
        changed = [run for run in (*listed.values(), *ended) if self._is_news(run)]
        self._forget(listed)
        self._since = began
        return sorted(changed, key=lambda run: (str(run["updated_at"]), str(run["id"])))

    def _listed(self, api: Api) -> Iterator[Json]:
        """Yield the runs that are not over, and all that were accepted since the last look."""
        for status in _LIVE:
            wishes = {**self.wishes, "status": status}
            yield from items_of(api, "/operate/runs", wishes, MAX_WATCHED)
        since = (self._since - _OVERLAP).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield from items_of(api, "/operate/runs", {**self.wishes, "since": since}, MAX_WATCHED)

    def _find(self, api: Api, run_id: str) -> Json | None:
        """Return the run as it is; None: it was erased meanwhile."""
        try:
            run: Json = api.get(f"/operate/runs/{quote(run_id, safe='')}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._seen.pop(run_id)
            return None
        return run

    def _is_news(self, run: Json) -> bool:
        """Remember the run, and return whether its state is another one."""
        before = self._seen.get(run["id"])
        self._seen[run["id"]] = run
        return before is None or _state(before) != _state(run)

    def _forget(self, listed: Mapping[str, Json]) -> None:
        """Drop the runs that no further look lists: those that are over and were accepted long ago, and those
        behind the most that a look lists."""
        oldest = (self._since - 2 * _OVERLAP).strftime("%Y-%m-%dT%H:%M:%S")
        self._seen = {
            run_id: run
            for run_id, run in self._seen.items()
            if run_id in listed or str(run["created_at"]) >= oldest
        }


def _state(run: Json) -> tuple[object, ...]:
    # The provider only: an outage is a row of pauses, and its first and its end are news.
    model = run.get("waiting_for")
    return run["status"], run["waiting_since"], model and model["provider"]


def _line(run: Json) -> str:
    error = f", {kind}" if (kind := error_of(run)) else ""
    usage = f"{run['steps']} steps, {run['usage']['total_tokens']} tokens"
    about = f"{run['agent']} of {run['owner']}, {usage}"
    return f"{second_of(run['updated_at'])}  {run['status']:<9} {run['id']}  {about}{error}{waits_of(run)}"
