"""The groups that the agents' code names, so that the stack has them before the first approval waits."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from layover.desk.cdk.reading import constants_of, name_of, texts_of, trees_of
from layover.desk.cdk.settings import GROUP

_RULE = "Approval"
_NAMING = ("by", "escalate_to")
"""Arguments of a rule that name groups."""


@dataclass(frozen=True)
class Groups:
    """`names`: sorted, each once. `unclear`: rules with further groups, which only running the code tells, as
    `agents/refunds.py:12`."""

    names: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


def groups_of(sources: Iterable[Path]) -> Groups:
    """Return the groups that `Approval(by=, escalate_to=)` names, by literals or by constants. `sources`:
    packages (folders) and modules (files). A file that is not Python is left to whoever imports it."""
    trees = trees_of(sources)
    # A name that two modules define makes the groups of both: one that nobody needs has no members, and
    # without one that is needed, nobody can approve.
    constants = constants_of(trees.values())
    names: set[str] = set()
    unclear: list[str] = []
    for path, tree in trees.items():
        for rule in _rules(tree):
            texts = [text for value in _naming(rule) for text in texts_of(value, constants)]
            names |= {text for text in texts if text and re.fullmatch(GROUP, text)}
            if None in texts:
                unclear.append(f"{path}:{rule.lineno}")
    return Groups(tuple(sorted(names)), tuple(unclear))


def _rules(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) == _RULE:
            yield node


def _naming(rule: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments that name groups, or that may do so: of `*args` and `**options` nobody knows."""
    # The first argument is `by`.
    yield from rule.args[:1]
    for keyword in rule.keywords:
        if keyword.arg is None or keyword.arg in _NAMING:
            yield keyword.value
