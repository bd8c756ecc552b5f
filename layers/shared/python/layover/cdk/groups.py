"""The groups that the agents' code names, so that the stack has them before the first approval waits.

The code is read and not run: what it imports need not be installed where a stack is synthesized."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from layover.cdk.settings import GROUP

_RULE = "Approval"
_NAMING = ("by", "escalate_to")
"""Arguments of a rule that name groups."""
_LISTS = ("list", "tuple", "set", "frozenset", "sorted")
"""Calls that make the same groups of their argument."""


@dataclass(frozen=True)
class Groups:
    """`names`: sorted, each once. `unclear`: rules with further groups, which only running the code tells, as
    `agents/refunds.py:12`."""

    names: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


def groups_of(sources: Iterable[Path]) -> Groups:
    """Return the groups that `Approval(by=, escalate_to=)` names, by literals or by constants. `sources`:
    packages (folders) and modules (files). A file that is no Python is left to whoever imports it."""
    trees = {path: tree for path in _files(sources) if (tree := _tree(path))}
    constants = _constants(trees.values())
    names: set[str] = set()
    unclear: list[str] = []
    for path, tree in trees.items():
        for rule in _rules(tree):
            texts = [text for value in _naming(rule) for text in _texts(value, constants)]
            names |= {text for text in texts if text and re.fullmatch(GROUP, text)}
            if None in texts:
                unclear.append(f"{path}:{rule.lineno}")
    return Groups(tuple(sorted(names)), tuple(unclear))


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


def _constants(trees: Iterable[ast.Module]) -> Mapping[str, list[ast.expr]]:
    """Return what is assigned to names, by these names, wherever that is: if modules differ, all of it
    counts. A group that nobody needs has no members; without one that is needed, nobody can approve."""
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


def _rules(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == _RULE:
            yield node


def _naming(rule: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments that name groups, or that may do so: of `*args` and `**options` nobody knows."""
    # The first argument is `by`.
    yield from rule.args[:1]
    for keyword in rule.keywords:
        if keyword.arg is None or keyword.arg in _NAMING:
            yield keyword.value


def _texts(
    value: ast.expr, constants: Mapping[str, list[ast.expr]], within: tuple[str, ...] = ()
) -> Iterator[str | None]:
    """Yield the texts of a value, and None for what is computed. `within`: the names that led here."""
    match value:
        case ast.Constant():
            if isinstance(value.value, str):
                yield value.value
        case ast.List() | ast.Tuple() | ast.Set():
            for each in value.elts:
                yield from _texts(each, constants, within)
        case ast.Starred():
            yield from _texts(value.value, constants, within)
        case ast.Call(args=[inner], keywords=[]) if _name(value.func) in _LISTS:
            yield from _texts(inner, constants, within)
        # A member of an enumeration.
        case ast.Attribute(attr="value"):
            yield from _texts(value.value, constants, within)
        case _:
            name = _name(value)
            meant = [] if name in within else constants.get(name, [])
            for each in meant:
                yield from _texts(each, constants, (*within, name))
            if not meant:
                yield None


def _name(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
