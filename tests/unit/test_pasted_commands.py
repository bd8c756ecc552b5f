"""Commands on pages may be pasted into zsh, the shell of macOS, as well as into bash."""

import re
from itertools import chain
from pathlib import Path

import pytest

from support.pages import Page
from support.zsh import misread

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "layers" / "shared" / "python" / "layover" / "desk" / "cli" / "templates"
HISTORY = {ROOT / "CHANGELOG.md"}
PAGES = [
    Page(path)
    for path in sorted(
        chain(
            ROOT.glob("*.md"),
            *(
                (ROOT / folder).rglob("*.md")
                for folder in ("docs", "examples", "functions", ".github")
            ),
            (ROOT / "tests").glob("*/*.md"),
            TEMPLATES.rglob("*.md"),
        )
    )
    if path not in HISTORY
]
SHELL = [page for page in PAGES if page.shell]
INSTALLS = re.compile(r"`((?:pip|pipx|uv|npm|npx) [^`\n]+)`")


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("make test  # all", "comment"),
        ("# first", "comment"),
        ('ADA="Authorization: Bearer dev:ada"      # it\'s local', "comment"),
        ("x=$(date  # now\n)", "comment"),
        ("pip install layover[local]", "pattern"),
        ("curl http://127.0.0.1/runs?wait=20", "pattern"),
        ("curl $API/runs/$run?wait=20", "pattern"),
        ("rm build/*.xml", "pattern"),
        ('curl "$API"/x?y=1', "pattern"),
        ('x="$(ls *.xml)"', "pattern"),
        ('echo "done!now"', "recalls a command"),
        ("echo done!now", "recalls a command"),
        ("[ a == b ]", "place of a command"),
        ("echo =ls", "place of a command"),
        ('drill="-c a=b"\nmake deploy $drill', "not split"),
        ("path=/threads", "zsh's own variable"),
        ("status=$(curl -s x)", "zsh's own variable"),
        ("for path in a b; do echo $path; done", "zsh's own variable"),
    ],
)
def test_what_zsh_reads_in_another_way_is_told(source: str, kind: str) -> None:
    assert [each.partition(":")[0] for each in misread(source)] == [kind]


@pytest.mark.parametrize(
    "source",
    [
        "pip install 'layover[local]'",
        'curl "$API/runs/$run?wait=20"',
        "curl -d '{\"a\": [1]}' -H 'x: #1'",
        "open a#b; [ -e x ] || echo y; [[ -e x ]]; ! grep -q x y",
        'test "$?" = 0 && echo $? $* "it\'s # fine" a\\#b \\*',
        "until [ 1 = 1 ]; do\n  sleep 1\ndone",
        'x="$(curl "$API/a?b=1" | cut -d\'"\' -f4)"; echo "$x" "y!" "z! q"',
        'drill="-c a=b"\nmake deploy ARGS="$drill"',
        "aws x --query \"Stacks[0].Outputs[?OutputKey=='$1']\" \\\n  --output text",
        "(cd a && make)",
    ],
)
def test_what_both_shells_read_alike_is_not_told(source: str) -> None:
    assert list(misread(source)) == []


@pytest.mark.parametrize("page", SHELL, ids=lambda page: str(page.path.relative_to(ROOT)))
def test_commands_of_a_page_may_be_pasted_into_zsh(page: Page) -> None:
    found = [
        f"{b.line}: {each}" for b in page.shell if b.file is None for each in misread(b.source)
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path.relative_to(ROOT)))
def test_installations_that_prose_names_may_be_pasted_into_zsh(page: Page) -> None:
    assert [each for line in INSTALLS.findall(page.text) for each in misread(line)] == []


def test_pages_with_commands_are_read() -> None:
    names = {str(page.path.relative_to(ROOT)) for page in SHELL}
    assert {"README.md", "docs/deploy/backends.md", "docs/guides/quickstart.md"} <= names
    assert len(names) > 25
    assert any(page.path.is_relative_to(TEMPLATES) for page in SHELL)
