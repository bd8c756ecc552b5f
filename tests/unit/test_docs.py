"""docs/ is true where a machine can tell: its links lead somewhere, and its tables name what the code has."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_overloads

import pytest
import typer.main
from pydantic import BaseModel

import layover
from functions.api.app import resolver
from functions.api.problems import _INTERNAL, _KINDS, PREFIX
from layover import keys
from layover.desk.cdk.settings import IN_CODE, TUNED, Settings
from layover.desk.cli import main as cli
from layover.plugins.people.channels import CHANNELS
from layover.values.deployment.access import Access
from layover.values.deployment.environment import Environment
from layover.values.runs import event

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINKED = [*sorted(ROOT.glob("*.md")), *PAGES]
MIGRATIONS = ROOT / "layers/shared/python/layover/adapters/store/postgres/migrations"
LONGEST_LINE = 120
CITING = ("functions", "infra", "layers", "tests", "Makefile", "pyproject.toml", ".ci", ".github")
# Its first word first: a pattern that begins with a look behind is tried at each character.
CITED = re.compile(r"docs/(?<![\w/.]docs/)[\w/-]+\.md(?:#[\w-]+)?")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NO_DEFAULT: tuple[Any, ...] = ("", (), None, {})


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the names that a link into a page may use: explicit anchors, and headings as GitHub makes
    anchors of them."""
    prose = FENCE.sub("", text_of(page))
    made = re.findall(r'<a (?:id|name)="([^"]+)">', prose)
    for title in re.findall(r"^#{1,6} +(.+?) *$", prose, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        made.append(slug if slug not in made else f"{slug}-{made.count(slug)}")
    return frozenset(made)


@cache
def leads_nowhere(target: Path, anchor: str) -> bool:
    if not target.exists():
        return True
    return bool(anchor) and (target.suffix != ".md" or anchor not in anchors(target))


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(FENCE.sub("", text_of(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        if leads_nowhere((page.parent / path).resolve() if path else page, anchor):
            yield f"{page.relative_to(ROOT)}: {link}"


NOT_OURS = {"__pycache__", "node_modules"}


def citing_files() -> Iterator[Path]:
    for name in CITING:
        place = ROOT / name
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (f for f in found if f.is_file() and NOT_OURS.isdisjoint(f.parts))


def section(page: str, heading: str) -> str:
    """Return the text below the first heading that begins so, up to the next of its level or above."""
    found = re.search(
        rf"^(#+) {re.escape(heading)}.*?$(.*?)(?=^#{{1,2}} |\Z)",
        text_of(DOCS / page),
        re.DOTALL | re.MULTILINE,
    )
    assert found, f"{page} has no section {heading!r}"
    return found[2]


def rows(text: str, head: str) -> list[tuple[str, ...]]:
    """Cells of all tables below this first cell of a head."""
    tables = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[ \-|]+\|\n((?:\|.*\n)*)", text, re.M)
    lines = (line for table in tables for line in table.splitlines())
    return [tuple(cell.strip() for cell in line[1:-1].split("|")) for line in lines]


def bare(cell: str) -> str:
    return cell.strip("`")


DURATIONS = {"s": "seconds", "min": "minutes", "hour": "hours", "day": "days"}


def said(cell: str) -> Any:
    """A default as a table writes it; None for words and for the names of other rows."""
    duration = re.fullmatch(r"(\d+) (s|min|hour|day)s?", cell)
    if duration:
        return timedelta(**{DURATIONS[duration[2]]: int(duration[1])})
    if cell in ("true", "false"):
        return cell == "true"
    if re.fullmatch(r"[\d.]+", cell):
        return float(cell) if "." in cell else int(cell)
    return bare(cell) if cell.startswith("`") else None


def wrong_defaults(
    table: list[tuple[str, ...]], defaults: Mapping[str, Any]
) -> list[tuple[str, str, Any]]:
    """Rows that state another default than the code's. Words stand for none of its own."""
    elsewhere = {*map(bare, (row[0] for row in table)), *VARIABLES, "Memory()"}
    wrong = []
    for name, cell, *_ in table:
        real = defaults[bare(name)]
        stated = None if bare(cell) in elsewhere or "STAGE" in cell else said(cell)
        if stated != (None if real in NO_DEFAULT else real):
            wrong.append((name, cell, real))
    return wrong


# Links


def test_every_link_leads_somewhere() -> None:
    assert [link for page in LINKED for link in broken_links(page)] == []


def test_every_citation_leads_somewhere() -> None:
    broken = []
    for file in citing_files():
        for cited in CITED.findall(file.read_text("utf-8", errors="replace")):
            path, _, anchor = cited.partition("#")
            if leads_nowhere(ROOT / path, anchor):
                broken.append(f"{file.relative_to(ROOT)}: {cited}")
    assert broken == []


def test_no_anchor_is_there_twice() -> None:
    for page in PAGES:
        explicit = re.findall(r'<a id="([^"]+)">', text_of(page))
        assert sorted(set(explicit)) == sorted(explicit), page


def test_lines_are_short() -> None:
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in PAGES
        for number, line in enumerate(text_of(page).splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert long == []


# Configuration

VARIABLES = {f.alias or "": f.get_default() for f in Environment.model_fields.values()} | {
    name: default for channel in CHANNELS for name, default in channel.variables.items()
}
STAGE = {
    name: field.get_default()
    if name not in TUNED or field.get_default() is not None
    else VARIABLES[TUNED[name]]
    for name, field in Settings.model_fields.items()
    if name not in IN_CODE
}


def configuration(head: str) -> list[tuple[str, ...]]:
    return rows(text_of(DOCS / "reference/configuration.md"), head)


@pytest.mark.parametrize(
    ("head", "defaults"), [("variable", VARIABLES), ("setting", STAGE)], ids=["variables", "stage"]
)
def test_settings_are_the_ones_in_the_code(head: str, defaults: Mapping[str, Any]) -> None:
    table = configuration(head)
    assert sorted(bare(row[0]) for row in table) == sorted(defaults)
    assert wrong_defaults(table, defaults) == []


def parameters(made: Callable[..., Any]) -> dict[str, Any]:
    known = inspect.signature(made).parameters.values()
    return {p.name: None if p.default is p.empty else p.default for p in known}


def options(name: str) -> dict[str, Any]:
    """Options with their defaults of what users declare."""
    if name == "@tool":
        return parameters(get_overloads(layover.tool)[1])
    return parameters(getattr(layover, name))


@pytest.mark.parametrize(
    "name",
    [
        *("Agent", "Limits", "@tool", "Approval", "Memory", "TokenBuffer", "ObservationalMemory"),
        *("RollingSummary", "SemanticRecall", "EpisodicMemory", "WorkingMemory", "NodeMemory"),
    ],
)
def test_options_are_the_ones_in_the_code(name: str) -> None:
    table, known = configuration(f"option of `{name}`"), options(name)
    assert [bare(row[0]) for row in table] == list(known)
    assert wrong_defaults(table, known) == []


def test_no_variable_is_named_that_nothing_reads() -> None:
    known = {*VARIABLES, "LAYOVER_TOKEN"}
    named = {n for page in LINKED for n in re.findall(r"`(LAYOVER_[A-Z_]+)`", text_of(page))}
    assert sorted(named - known) == []


# Command line


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    top: Any = group or typer.main.get_command(cli.app)
    for name, command in top.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def spelled(name: str, command: Any) -> str:
    arguments = [p.name.upper() for p in command.params if p.param_type_name == "argument"]
    return " ".join(("layover", name, *arguments))


def test_commands_are_the_ones_in_the_code() -> None:
    titles = re.findall(r"^## `(layover .*?)`$", text_of(DOCS / "reference/cli.md"), re.M)
    assert sorted(titles) == sorted(spelled(*each) for each in commands())


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=[name for name, _ in commands()]
)
def test_options_of_commands_are_the_ones_in_the_code(name: str, command: Any) -> None:
    table = rows(section("reference/cli.md", f"`{spelled(name, command)}`"), "option")
    known = [p for p in command.params if p.param_type_name == "option"]
    assert [row[0] for row in table] == [
        ", ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts)) for p in known
    ]
    for row, option in zip(table, known, strict=True):
        if option.default and not isinstance(option.default, bool):
            assert bare(row[1]) == str(option.default)


def test_targets_of_make_are_the_ones_that_are_there() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", text_of(ROOT / "Makefile"), re.MULTILINE)
    table = rows(section("reference/cli.md", "make"), "target")
    assert sorted(bare(row[0]) for row in table) == sorted({f"make {t}" for t in targets})


def test_commands_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text_of(ROOT / "Makefile"), re.MULTILINE))
    first = {name.split()[0] for name, _ in commands()}
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)", text_of(page))) <= targets, page
        assert set(re.findall(r"`layover ([a-z]+)", text_of(page))) <= first, page


# HTTP API


def http_api(heading: str, head: str) -> list[tuple[str, ...]]:
    return rows(section("reference/http-api.md", heading), head)


def test_routes_are_the_ones_in_the_code() -> None:
    app = resolver()
    known = [*app._static_routes, *app._dynamic_routes]
    routes = {(r.method, re.sub(r"<(\w+)>", r"{\1}", r.path)) for r in known}
    table = http_api("Routes", "method")
    assert sorted((bare(row[0]), bare(row[1])) for row in table) == sorted(routes)


def test_problems_are_the_ones_in_the_code() -> None:
    kinds = {(str(k.status.value), k.slug) for k in (*_KINDS.values(), _INTERNAL)}
    table = http_api("Errors", "status")
    assert sorted((row[0], bare(row[1])) for row in table) == sorted(kinds)
    assert f"`{PREFIX}SLUG`" in section("reference/http-api.md", "Errors")


def test_scopes_are_the_ones_in_the_code() -> None:
    access = Access()
    known = {access.scope, access.act_as_scope, access.operate_scope, access.audit_scope}
    known |= {access.read_content_scope}
    assert {bare(row[0]) for row in http_api("Authentication", "scope")} == known


def test_events_are_the_ones_in_the_code() -> None:
    known = {m.model_fields["type"].default: m for m in get_args(get_args(event.Event)[0])}
    table = http_api("Events", "type")
    assert sorted(bare(row[0]) for row in table) == sorted(known)
    for kind, cell in table:
        fields = known[bare(kind)].model_fields
        every = {field.serialization_alias or name for name, field in fields.items()}
        own = every - set(event.BaseEvent.model_fields) - {"type"}
        named = re.findall(r"`(\w+)", cell.split(":")[0])
        assert "Pending" in cell or [n for n in named if n != "ctx"] == sorted(own, key=named.index)


def test_objects_have_the_fields_of_the_code() -> None:
    from layover.plugins.memory.learns.entries import Entry
    from layover.plugins.memory.reads.thread_memory import ThreadMemory
    from layover.values.message import Message
    from layover.values.runs.audit import AuditRow
    from layover.values.runs.usage import Usage
    from layover.values.runs.views import Pending, Run
    from layover.values.thread import Thread

    text = " ".join(section("reference/http-api.md", "Objects").split())
    models: dict[str, type[BaseModel]] = {
        "Thread": Thread,
        "Message": Message,
        "Run": Run,
        "Pending": Pending,
        "Usage": Usage,
        "Entry": Entry,
        "Thread memory": ThreadMemory,
        "Audit row": AuditRow,
    }
    for name, model in models.items():
        named = re.search(rf"\*\*{name}\*\* `{{(.*?)}}`", text)
        assert named, name
        shown = {n for n, f in model.model_fields.items() if f.exclude is not True}
        shown |= model.model_computed_fields.keys()
        assert sorted(named[1].replace("?", "").split(", ")) == sorted(shown), name


# Stores


def test_keys_of_the_journal_are_on_its_page() -> None:
    page = text_of(DOCS / "journal.md")
    constants = {k: v for k, v in vars(keys).items() if k.isupper() and isinstance(v, str)}
    assert {
        n: v for n, v in constants.items() if f"`{v}" not in page and f"/ `{v}" not in page
    } == {}
    owned = re.findall(r'f"U#\{self\.hash\}#([A-Z]+)', inspect.getsource(keys))
    assert [name for name in owned if f"`U#h#{name}" not in page] == []


def test_dues_of_the_journal_are_on_its_page() -> None:
    from layover.ports import DueKind

    text = " ".join(text_of(DOCS / "journal.md").split())
    named = re.search(r"Kinds of `DUE#`: (.*?\.)(?: |$)", text)
    assert named
    assert sorted(re.findall(r"`(\w+)` \(", named[1])) == sorted(get_args(DueKind))


def test_tables_and_indexes_of_the_database_are_on_its_page() -> None:
    sql = "".join(file.read_text() for file in sorted(MIGRATIONS.glob("*.sql")))
    page = text_of(DOCS / "database.md")
    tables = set(re.findall(r"^create table (\w+)", sql, re.MULTILINE))
    listed = re.findall(r"^(?:\| |- )`(\w+)`", section("database.md", "Tables"), re.MULTILINE)
    assert sorted(set(listed) & tables) == sorted(tables)
    indexes = re.findall(r"create (?:unique )?index (\w+)", sql)
    assert [name for name in indexes if f"`{name}`" not in page] == []
    roles = set(re.findall(r"create role (\w+)", sql))
    assert [role for role in roles if f"`{role}`" not in page] == []


def test_constants_of_behaviour_are_the_ones_in_the_code() -> None:
    """Every whole number of these modules' limits that a rule names."""
    from layover.runs.follow import SILENCE_S
    from layover.runs.places import STREAM_LEASE
    from layover.values.lease import MAX_SOCKETS, MAX_UPLOADS
    from layover.values.runs import run

    page = text_of(DOCS / "behaviour.md")
    assert (run.MAX_ATTEMPTS, "Five attempts" in page) == (5, True)
    assert f"waits in order of arrival, {run.MAX_QUEUE} runs" in " ".join(page.split())
    assert f"at most {run.MAX_WINDOW})" in page
    assert f"at most {MAX_SOCKETS} connections" in page
    assert f"ends after {SILENCE_S:.0f} s without an event" in page
    assert f"a lease of {STREAM_LEASE.total_seconds():.0f} s" in " ".join(page.split())
    assert f"At most {MAX_UPLOADS} files" in text_of(DOCS / "reference/http-api.md")
