"""No module needs, by whatever way, a module that needs it: imports for types and inside functions count,
names that `import_module` is given do not (`Agent` finds its engine so)."""

from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter

import grimp

USERS = "functions.user_agents"
MAX_FLOORS = 7


def circle(imports: Mapping[str, Set[str]]) -> list[str]:
    """Modules of one circle, the first one again at its end; none: there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imports_of(*packages: str) -> dict[str, Set[str]]:
    graph = grimp.build_graph(*packages, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_no_modules_import_each_other() -> None:
    graph = imports_of("layover", "infra", "functions")
    imports = {module: of for module, of in graph.items() if not module.startswith(USERS)}
    assert {"layover.wiring", "infra.stack", "functions.api.app"} <= imports.keys()
    assert circle(imports) == []


def floors(folder: str, imports: Mapping[str, Set[str]]) -> int:
    """Modules on the longest way of imports between the modules that are directly in a folder."""
    rooms = {m for m in imports if m.rpartition(".")[0] == folder}
    heights: dict[str, int] = {}
    for module in TopologicalSorter({m: imports[m] & rooms for m in rooms}).static_order():
        heights[module] = 1 + max((heights[m] for m in imports[module] & rooms), default=0)
    return max(heights.values(), default=0)


def test_no_folder_is_higher_than_a_newcomer_can_follow() -> None:
    imports = imports_of("layover")
    heights = {m: floors(m, imports) for m in imports if m != "layover"}
    assert {"layover.engine", "layover.local.aws.dynamodb"} <= heights.keys()
    assert {m: n for m, n in heights.items() if n > MAX_FLOORS} == {}
