"""What users of other projects reported, tried on this one.

A report is a test with a name: `@report("owner/project#123", Found.MENDED)`. Its docstring says what is
right, in our words; nothing of a report is copied. `SOURCES.md` lists them by domain."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pytest

HERE = Path(__file__).parent
SOURCES = HERE / "SOURCES.md"
Test = TypeVar("Test", bound=Callable[..., Any])


class Found(StrEnum):
    """What the first try of a report showed."""

    RIGHT = "right at once"
    MENDED = "mended"
    LEFT = "left"


@dataclass(frozen=True)
class Report:
    """`name`: one report or several of the same fault, "owner/project#123, other/project#4". `why`: the
    reason of one that is left. `held_back`: tried after what the others of its domain showed was mended."""

    name: str
    found: Found
    why: str = ""
    held_back: bool = False


def report(
    name: str, found: Found, why: str = "", *, held_back: bool = False
) -> Callable[[Test], Test]:
    """Say which report a test tries, and what the first try showed. A report that is left needs its reason,
    and its test has to fail.

    Raises:
        ValueError: A report is left without a reason, or has one without being left.
    """
    if (found is Found.LEFT) is not bool(why):
        raise ValueError(f"{name}: a reason goes with a report that is left, and with no other")

    def mark(test: Test) -> Test:
        left = pytest.mark.xfail(strict=True, reason=why) if why else None
        marked: Test = pytest.mark.report(Report(name, found, why, held_back))(test)
        return left(marked) if left else marked

    return mark


def each_test() -> Iterator[tuple[str, Callable[..., Any], Report | None]]:
    """Yield the domain, the test and its report (None: it names none) of each test of this folder."""
    for path in sorted(HERE.glob("test_*.py")):
        if path.stem == "test_sources":
            continue
        module = import_module(f"reports.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_") and callable(test):
                marks = getattr(test, "pytestmark", ())
                found = next((mark.args[0] for mark in marks if mark.name == "report"), None)
                yield path.stem.removeprefix("test_").replace("_", " "), test, found


def tried() -> list[tuple[str, str, Report]]:
    """Return the domain, what is right (the first paragraph of the test) and the report of each test that
    names one."""
    return [
        (domain, " ".join((test.__doc__ or "").split("\n\n")[0].split()), found)
        for domain, test, found in each_test()
        if found is not None
    ]


def written(tests: Iterable[tuple[str, str, Report]]) -> str:
    """Return `SOURCES.md`: the table of the domains, then what each report asks for. `tests`: domain, what is
    right, and the report."""
    by_domain: dict[str, list[tuple[str, Report]]] = {}
    for domain, right, each in tests:
        by_domain.setdefault(domain, []).append((right, each))
    lines = ["# Reports of other projects", ""]
    lines += [f"| domain | tried | {' | '.join(Found)} | of those held back, right at once |"]
    lines += [f"| --- {'| --- ' * (2 + len(Found))}|"]
    for domain, its in [*sorted(by_domain.items()), ("all", [*chain(*by_domain.values())])]:
        counts = Counter(each.found for _, each in its)
        late = [each.found for _, each in its if each.held_back]
        last = f"{late.count(Found.RIGHT)} of {len(late)}"
        cells = [domain, str(len(its)), *(str(counts[found]) for found in Found), last]
        lines.append(f"| {' | '.join(cells)} |")
    for domain, its in sorted(by_domain.items()):
        lines += [
            "",
            f"## {domain}",
            "",
            "| report | what is right | found |",
            "| --- | --- | --- |",
        ]
        for right, each in its:
            found = f"{each.found}: {each.why}" if each.why else str(each.found)
            lines.append(f"| {each.name} | {right} | {found} |")
    return "\n".join(lines) + "\n"
