"""Agents' code as synthesis reads it: it is not run, because what it imports need not be installed there."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Constants = Mapping[str, list[ast.expr]]
"""Values that are assigned to names, by these names."""
_LISTS = ("list", "tuple", "set", "frozenset", "sorted")
"""Calls that make the same texts of their argument."""


def trees_of(sources: Iterable[Path]) -> dict[Path, ast.Module]:
    """Return the modules of packages (folders) and modules (files), by their files, without tests. A file
    that is not Python is left to whoever imports it."""
    return {path: tree for path in _files(sources) if (tree := _tree(path))}


def _files(sources: Iterable[Path]) -> Iterator[Path]:
    for source in sources:
        if source.is_dir():
            yield from (path for path in sorted(source.rglob("*.py")) if not _is_test(path))
        elif source.is_file():
            yield source


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py"


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None


def constants_of(trees: Iterable[ast.Module]) -> Constants:
    """Return what is assigned to names, by these names, wherever that is: if modules differ, all of it
    counts."""
    constants: dict[str, list[ast.expr]] = {}
    for node in (each for tree in trees for each in ast.walk(tree)):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case _:
                continue
        for each in targets:
            if isinstance(each, ast.Name):
                constants.setdefault(each.id, []).append(value)
    return constants


def texts_of(
    value: ast.expr, constants: Constants, within: tuple[str, ...] = ()
) -> Iterator[str | None]:
    """Yield the texts of a value, and None for what is computed. `within`: the names that led here."""
    match value:
        case ast.Constant():
            if isinstance(value.value, str):
                yield value.value
        case ast.List() | ast.Tuple() | ast.Set():
            for each in value.elts:
                yield from texts_of(each, constants, within)
        case ast.Starred():
            yield from texts_of(value.value, constants, within)
        case ast.Call(args=[inner], keywords=[]) if name_of(value.func) in _LISTS:
            yield from texts_of(inner, constants, within)
        # A member of an enumeration.
        case ast.Attribute(attr="value"):
            yield from texts_of(value.value, constants, within)
        case _:
            name = name_of(value)
            meant = [] if name in within else constants.get(name, [])
            for each in meant:
                yield from texts_of(each, constants, (*within, name))
            if not meant:
                yield None


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield every text in the code, docstrings included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def name_of(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
