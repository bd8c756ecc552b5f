"""`layover ops audit`: who decided what, and what operators did."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from layover.desk.cli.client import Api
from layover.desk.cli.ops.asking import Json, Who, items_of, second_of
from layover.desk.failures import CommandFailed, report_failure
from layover.project import DeploySettings, Project
from layover.values.text import show

Book = Literal["decisions", "operations"]
Form = Literal["text", "json", "csv"]
FIELDS: Mapping[Book, tuple[str, ...]] = {
    "decisions": (
        "decided_at",
        "decision",
        "changed",
        "settled",
        "decided_by",
        "on_behalf_of",
        "via",
        "reason",
        "tool_name",
        "agent",
        "owner",
        "run_id",
        "thread_id",
        "tool_call_id",
        "risk",
        "requested_at",
        "args_sha256",
    ),
    "operations": (
        "at",
        "operation",
        "outcome",
        "problem",
        "by",
        "on_behalf_of",
        "reason",
        "agent",
        "owner",
        "run_id",
        "thread_id",
    ),
}
"""Columns of each book, as its rows have them."""
PEOPLE = ("decided_by", "by", "on_behalf_of", "owner")
"""Fields with the id of a user."""
MAX_ROWS = 1_000_000
_SUB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id of a user of Cognito."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of formulas in a spreadsheet."""
Names = Callable[[str], str]
"""The name of a user, by their id; the id where there is none."""


@dataclass(frozen=True)
class Request:
    """The rows that are asked for. `days`: `from` and `to`, UTC days. `only`: the values that fields of the
    rows have to have. `by`: who decided, or acted, by id or name."""

    book: Book
    days: Mapping[str, str]
    only: Mapping[str, str]
    by: str = ""
    form: Form = "text"


@report_failure
def audit(who: Who, request: Request, names: Names = str) -> int:
    """Print rows of the audit, the oldest first. The exit code."""
    rows = _rows(Api(*who()), request, names)
    if request.form == "csv":
        _write_csv(rows, FIELDS[request.book])
        return 0
    empty = True
    for row in rows:
        empty = False
        print(json.dumps(row) if request.form == "json" else _LINES[request.book](row))
    if empty and request.form == "text":
        print("no such rows")
    return 0


def _rows(api: Api, request: Request, names: Names) -> Iterator[Json]:
    only = {name: value for name, value in request.only.items() if value}
    days = {name: value for name, value in request.days.items() if value}
    for row in items_of(api, f"/audit/{request.book}", days, MAX_ROWS):
        with_names = {**row, **{field: names(row[field]) for field in PEOPLE if row.get(field)}}
        fits = all(value in (row.get(name), with_names.get(name)) for name, value in only.items())
        if fits and (not request.by or request.by in _actors(row) | _actors(with_names)):
            yield with_names


def _actors(row: Json) -> set[str]:
    return {row[field] for field in ("decided_by", "by", "on_behalf_of") if row.get(field)}


def _write_csv(rows: Iterator[Json], fields: Sequence[str]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(fields)
    for row in rows:
        writer.writerow([_cell(row.get(field)) for field in fields])


def _cell(value: Any) -> str:
    """Return a value as a cell. A spreadsheet computes what begins like a formula, and people wrote it."""
    text = "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _decision_line(row: Json) -> str:
    how = " with changes" if row["changed"] else ""
    what = row["decision"] if row["settled"] else f"vote: {row['decision']}"
    by = _actor(row["decided_by"], row["on_behalf_of"])
    where = f"{row['agent']} of {row['owner']}, {row['run_id']} {row['tool_call_id']}"
    line = f"{row['tool_name']}: {what}{how} by {by} ({row['via']}), {where}"
    return _line(row["decided_at"], line, row["reason"])


def _operation_line(row: Json) -> str:
    by = _actor(row["by"], row["on_behalf_of"])
    problem = f", {row['problem']}" if row["problem"] else ""
    about = f", {row['run_id']} of {row['agent']}" if row["run_id"] else ""
    owner = f", {row['owner']}" if row["owner"] else ""
    return _line(
        row["at"],
        f"{row['operation']} by {by}: {row['outcome']}{problem}{about}{owner}",
        row["reason"],
    )


def _actor(by: str, on_behalf_of: str | None) -> str:
    return by if on_behalf_of is None else f"{on_behalf_of} (by {by})"


def _line(at: str, text: str, reason: str | None) -> str:
    return f"{second_of(at)}  {show(f'{text}: {reason}' if reason else text)}"


_LINES: Mapping[Book, Callable[[Json], str]] = {
    "decisions": _decision_line,
    "operations": _operation_line,
}


def names_of_pool(
    project: Project | None, at: DeploySettings, client: Callable[..., Any] | None = None
) -> Names:
    """Return a function that gives the mail address of a user of a stage's Cognito pool, once for each id.
    `at`: stage, profile and region. `client`: None is one of these. Raises CommandFailed."""
    from botocore.exceptions import BotoCoreError, ClientError

    from layover.desk.cli.users import client_at, pool_of, prefix_of

    stage = at.stage
    try:
        client = client or client_at(at)
        region, pool, _ = pool_of(prefix_of(stage, project), client("cloudformation"))
        cognito = client("cognito-idp", region_name=region)
    except (BotoCoreError, ClientError) as error:
        raise CommandFailed(f"the users of {stage} cannot be read: {error}", 1) from error

    @cache
    def name(user: str) -> str:
        if _SUB.fullmatch(user) is None:
            return user
        try:
            users = cognito.list_users(UserPoolId=pool, Filter=f'sub = "{user}"', Limit=1)["Users"]
        except (BotoCoreError, ClientError) as error:
            raise CommandFailed(f"the users of {stage} cannot be read: {error}", 1) from error
        facts = {each["Name"]: each["Value"] for one in users for each in one["Attributes"]}
        return str(facts.get("email", user))

    return name
