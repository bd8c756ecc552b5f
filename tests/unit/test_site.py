"""The site of the documentation: all pages and public names are in it, and what it names is there."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

import layover
from layover import testing
from layover.ports import table
from layover.testing import contracts
from support import llms
from support.api_page import shown_names, unrendered
from support.site_hosts import loaded_from_elsewhere

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "layers" / "shared" / "python" / "layover"
DOCS = ROOT / "docs"
SITE = (ROOT / "mkdocs.yml").read_text()
API = (DOCS / "reference" / "python-api.md").read_text()
EXPLAINING = ["architecture.md", "run-lifecycle.md", "security.md", "glossary.md"]
"""Pages that say where a thing is, beside the decision records."""
BUILT = {"build/docs", "build/site"}
SCOPES = {
    "layover/use",
    "layover/act-as",
    "layover/operate",
    "layover/audit",
    "layover/read-content",
}


def test_every_page_is_in_the_navigation_once() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    named = re.findall(r"[\w/-]+\.md$", SITE, re.MULTILINE)
    assert len(named) == len(set(named))
    assert pages - set(named) == set()


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    shown = re.findall(r"^::: (\S+)$", API, re.MULTILINE)
    public = {f"layover.{name}" for name in layover.__all__}
    for module in (testing, contracts, table):
        public |= {f"{module.__name__}.{name}" for name in module.__all__}
    assert public - set(shown) == set()
    assert len(shown) == len(set(shown))


def test_every_member_that_the_page_of_the_python_api_lists_exists() -> None:
    absent = [
        f"{shown.name}.{member}"
        for shown in shown_names(API)
        for member in shown.members or ()
        if not hasattr(resolve_name(shown.name), member)
    ]
    assert absent == []


def test_no_listed_member_is_a_word_that_yaml_reads_as_a_boolean() -> None:
    listed = re.findall(r"\bmembers:\s*\[(.*?)\]", API, re.DOTALL)
    bare = {word.strip() for each in listed for word in each.split(",")}
    assert bare & {"on", "off", "yes", "no", "y", "n", "true", "false", "null"} == set()


def test_members_that_a_class_inherits_are_shown() -> None:
    assert re.search(r"^ +inherited_members: true$", SITE, re.MULTILINE)


PAGE = """::: layover.Agent
    options:
      members:
        [generate, "on"]

::: layover.Hook
"""
RENDERED = """<h3 id="layover.Agent">Agent</h3><h4 id="layover.Agent.generate">generate</h4>
<h4 id="layover.Agent.on">on</h4><h3 id="layover.Hook">Hook</h3>"""


@pytest.mark.parametrize("name", ["layover.Agent", "layover.Agent.on", "layover.Hook"])
def test_build_without_a_name_of_the_page_is_refused(name: str) -> None:
    built = RENDERED.replace(f'id="{name}"', "")
    assert unrendered(PAGE, built) == [f"{name} is not there"]


@pytest.mark.parametrize("text", ["Args:", "Example:", "```python"])
def test_build_that_shows_a_section_as_text_is_refused(text: str) -> None:
    assert unrendered(PAGE, f"{RENDERED}<p>{text}</p>") == [
        f"{text.removesuffix('python')!r} is shown as text"
    ]


def test_build_that_has_all_of_the_page_passes() -> None:
    assert unrendered(PAGE, f"{RENDERED}<pre>Args: of a block of code</pre>") == []


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/mermaid.js"></script>',
        "<script defer src=//cdn.example/mermaid.js></script>",
        '<link rel="stylesheet" href="https://fonts.example/a.css">',
        '<link href=https://fonts.example rel="preconnect">',
        '<img alt="a badge" src="https://badges.example/a.svg">',
    ],
)
def test_page_that_loads_something_from_another_host_is_refused(html: str) -> None:
    assert len(loaded_from_elsewhere(html)) == 1


def test_links_to_other_hosts_and_own_files_are_no_loads() -> None:
    own = '<script src="../javascripts/diagrams.js"></script><link rel="canonical" href="https://a.example/">'
    assert loaded_from_elsewhere(f'{own}<a href="https://docs.example/">docs</a>') == []


def test_diagrams_are_drawn_by_a_copy_of_the_site() -> None:
    assert "extra_javascript:\n  - javascripts/diagrams.js\n" in SITE
    assert 'new URL("mermaid.min.js", document.currentScript.src)' in (
        DOCS / "javascripts" / "diagrams.js"
    ).read_text("utf-8")


def test_file_for_language_models_lists_the_navigation() -> None:
    again = "write it again: PYTHONPATH=tests:. .venv/bin/python -m support.llms"
    assert llms.PAGE.read_text("utf-8") == llms.text(), again
    assert llms.text().count("](") == len(re.findall(r"[\w/-]+\.md$", SITE, re.MULTILINE))


def test_no_font_is_fetched_and_warnings_are_errors() -> None:
    assert re.search(r"^strict: true$", SITE, re.MULTILINE)
    assert re.search(r"^  font: false$", SITE, re.MULTILINE)


def explaining() -> list[Path]:
    return [*(DOCS / name for name in EXPLAINING), *sorted((DOCS / "adr").glob("*.md"))]


def is_there(name: str) -> bool:
    """A file or a folder of the repository, of the package, or a dotted module of it."""
    dotted = PACKAGE.parent / name.replace(".", "/")
    return (
        any((root / name).exists() for root in (ROOT, PACKAGE, PACKAGE.parent))
        or dotted.is_dir()
        or dotted.with_suffix(".py").is_file()
    )


@pytest.mark.parametrize("page", explaining(), ids=lambda page: str(page.name))
def test_every_file_and_module_that_a_page_names_is_there(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    quoted = re.findall(r"`([^`\n]+)`", prose)
    paths = {q for q in quoted if re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.py", q)} - SCOPES
    modules = {q for q in quoted if re.fullmatch(r"layover(\.[a-z_]+)+", q)}
    missing = {name for name in paths | modules if not is_there(name)}
    assert missing - BUILT == set()


def test_every_name_of_the_glossary_is_in_the_code() -> None:
    """A renamed class or function takes its entry with it."""
    words = {w for path in PACKAGE.rglob("*.py") for w in re.findall(r"\w+", path.read_text())}
    names = re.findall(r"`([A-Za-z_][\w.]*)`", (DOCS / "glossary.md").read_text())
    absent = {name for name in names if not {*name.split(".")} <= words}
    assert len(names) > 40
    assert absent == set()
