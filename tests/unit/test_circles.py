"""No module needs, in any way, a module that needs it. Imports for types, imports in functions and imports
by name (`import_module("layover.wiring")`) count. import-linter sees the first two, and holds the floors with
them (pyproject.toml). This holds the third."""

import ast
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers" / "shared" / "python"
USERS = "functions.user_agents"
AHEAD = "layover.ahead"
BELOW_AHEAD = ("layover.adapters.", "layover.plugins.")
LOADERS = ("import_module", "__import__")
FACADE = "layover"
"""`layover/__init__.py` stands above all floors: it exports the package's names, each loaded when it is first
used. Nothing in the package takes a name from it."""

Graph = Mapping[str, Set[str]]


def circle(imports: Graph) -> list[str]:
    """Modules of one circle, the first one again at its end; none: there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def names_in(source: str, modules: Set[str]) -> Iterator[str]:
    """Modules that a file names in strings, if it imports anything by name."""
    if not any(name in source for name in LOADERS):
        return
    nodes = list(ast.walk(ast.parse(source)))
    loads = any(
        (isinstance(node, ast.Name) and node.id in LOADERS)
        or (isinstance(node, ast.Attribute) and node.attr == "import_module")
        for node in nodes
    )
    if loads:
        for node in nodes:
            if isinstance(node, ast.Constant) and node.value in modules:
                yield str(node.value)


@pytest.fixture(scope="module")
def imports() -> Graph:
    graph = grimp.build_graph("layover", "infra", "functions", cache_dir=None)
    return {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
        if not module.startswith(USERS)
    }


@pytest.fixture(scope="module")
def imports_by_name(imports: Graph) -> Graph:
    named: dict[str, Set[str]] = {}
    loadable = imports.keys() - {FACADE}  # loggers and schemas bear its name, too
    for module in loadable:
        folder = LAYER if module.startswith("layover") else ROOT
        path = folder.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        named[module] = set(names_in(file.read_text(), loadable)) if file.exists() else set()
    return named


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_an_import_by_name_is_seen() -> None:
    modules = {"layover.wiring", "layover.keys"}
    by_name = "from importlib import import_module\nimport_module('layover.wiring')"
    listed = "import importlib\nN = ('layover.keys', 'x')\nfor n in N: importlib.import_module(n)"
    assert set(names_in(by_name, modules)) == {"layover.wiring"}
    assert set(names_in(listed, modules)) == {"layover.keys"}
    assert set(names_in("LOGGER = 'layover.keys'", modules)) == set()


def test_imports_by_name_are_found_in_the_package(imports_by_name: Graph) -> None:
    assert "layover.adapters.journal.journal" in imports_by_name[AHEAD]


def test_no_modules_need_each_other(imports: Graph, imports_by_name: Graph) -> None:
    assert {"layover.wiring", "infra.stack", "functions.api.app"} <= imports.keys()
    assert circle({m: of | imports_by_name.get(m, set()) for m, of in imports.items()}) == []


def test_no_import_by_name_leaves_its_package(imports_by_name: Graph) -> None:
    """An import by name is for cold starts, and loads what its own package has. What it loaded elsewhere, the
    contract of the floors would not see. `ahead` stands above all that it loads."""
    astray = [
        f"{module} loads {name}"
        for module, names in imports_by_name.items()
        for name in names
        if name.split(".")[:2] != module.split(".")[:2]
        and not (module == AHEAD and name.startswith(BELOW_AHEAD))
    ]
    assert astray == []


def test_nothing_in_the_package_needs_its_facade(imports: Graph) -> None:
    assert [m for m, of in imports.items() if FACADE in of and m.startswith("layover.")] == []
