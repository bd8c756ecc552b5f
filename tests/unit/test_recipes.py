"""The recipes of CONTRIBUTING name every file that their examples are in, and no other."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "layers/shared/python/layover"
SHIPPED = ("layers", "functions/api", "infra", "docs")
NAMED = re.compile(r"`([\w./-]+\.(?:py|sql|js|md|json))`")


@dataclass(frozen=True)
class Example:
    """Something that a recipe could have added: `is_in` finds it in a file. `also_in`: files that have it for
    another reason."""

    is_in: str
    also_in: Mapping[str, str] = field(default_factory=dict)


EXAMPLES = {
    # Two fields side by side, as a file has them that lists the fields of a thread.
    "a field of a thread": Example(
        r"\btitle\b.{0,80}\bmetadata\b|^metadata jsonb",
        {
            f"{PACKAGE}/adapters/store/postgres/migrations/0001_pre_initial.sql": "its migration",
        },
    ),
    "an event": Example(
        r"model[-_]fallback|ModelFallback|ModelChanged|chat\.fallback|\bfallback: \(from",
        {
            f"{PACKAGE}/engine/models/asking.py": "emits it",
            f"{PACKAGE}/declare/agent.py": "the option that leads to it",
            "docs/behaviour.md": "when it comes",
        },
    ),
    "an option of `@tool`": Example(
        r"\bmax_calls\b",
        {
            f"{PACKAGE}/engine/tools/call_limits.py": "reads it",
            f"{PACKAGE}/engine/tools/first_window.py": "reads it",
            "docs/behaviour.md": "its rule",
            "docs/guides/cookbook.md": "an example",
        },
    ),
}
ALSO_NAMED = {
    "an event": {"docs/versions.md"},
    "an option of `@tool`": {f"{PACKAGE}/engine/definition.py"},
}
"""Files that a recipe names for what they say."""


@cache
def shipped() -> Mapping[str, str]:
    """The texts of all files that are shipped, and of the documents, by path."""
    files = (path for folder in SHIPPED for path in (ROOT / folder).rglob("*.*"))
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in files
        if path.suffix in (".py", ".sql", ".js", ".md", ".json") and "cdk.out" not in path.parts
    }


def recipe(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    _, found, rest = text.partition(f"### ... {title}\n")
    assert found, f"no recipe for {title}"
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def files_in(title: str) -> set[str]:
    """The files of a recipe by their paths in the repository; those of the package have short names there."""
    named = set(NAMED.findall(recipe(title)))
    paths = {name if (ROOT / name).exists() else f"{PACKAGE}/{name}" for name in named}
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    return {path for path in paths if path.startswith(SHIPPED)} - ALSO_NAMED.get(title, set())


def mentions(example: Example) -> set[str]:
    pattern = re.compile(example.is_in, re.DOTALL | re.MULTILINE)
    return {path for path, text in shipped().items() if pattern.search(text)}


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_recipe_names_the_files_that_its_example_is_in(title: str) -> None:
    example = EXAMPLES[title]
    found = mentions(example)
    assert example.also_in.keys() - found == set()
    assert files_in(title) == found - example.also_in.keys()
