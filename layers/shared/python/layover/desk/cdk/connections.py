"""The connections that the agents' code has, so that the stack has a key for the tokens of their users."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from layover.desk.cdk.reading import Constants, constants_of, name_of, texts_of, trees_of

_PACKAGE = "layover"
_CLASS = "Connection"
_REQUIRED = "token_url"
"""An option that each connection has, and no other class of that name."""
_SECRETS = ("secret", "Secret")


@dataclass(frozen=True)
class Connections:
    """`of_users`: True if users connect accounts of their own. `secrets`: names of the secrets of those
    connections, sorted, each once. `unclear`: connections with a secret that only running the code tells, as
    `agents/accounts.py:12`."""

    of_users: bool = False
    secrets: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


def connections_of(sources: Iterable[Path]) -> Connections:
    """Return what `Connection(authorize_url=, client_secret=)` says of accounts of users, by literals or by
    constants. `sources`: packages (folders) and modules (files)."""
    trees = trees_of(sources)
    constants = constants_of(trees.values())
    of_users, secrets, unclear = False, set[str](), list[str]()
    for path, tree in trees.items():
        for call in _connections(tree):
            options = {keyword.arg: keyword.value for keyword in call.keywords}
            # Of `**options` nobody knows.
            if None not in options and not _has(options.get("authorize_url")):
                continue
            of_users = True
            names = list(_names(options.get("client_secret"), constants))
            secrets |= {name for name in names if name}
            if None in names or (None in options and "client_secret" not in options):
                unclear.append(f"{path}:{call.lineno}")
    return Connections(of_users, tuple(sorted(secrets)), tuple(unclear))


def _connections(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield what makes connections: calls of what was imported from this package, and calls of that name that
    have what only a connection has."""
    names, packages = _imports(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in names:
                yield node
            case ast.Attribute(value=ast.Name(id=package), attr=attr) if (
                attr == _CLASS and package in packages
            ):
                yield node
            case _:
                takes = [keyword.arg for keyword in node.keywords]
                if name_of(node.func) == _CLASS and _REQUIRED in takes:
                    yield node


def _imports(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names of the class and of the package in this module."""
    names, packages = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str() as module) if module.split(".")[0] == _PACKAGE:
                names |= {each.asname or each.name for each in node.names if each.name == _CLASS}
            case ast.Import():
                packages |= {
                    each.asname or each.name for each in node.names if each.name == _PACKAGE
                }
    return names, packages


def _has(value: ast.expr | None) -> bool:
    """Return whether an option may have a value other than None."""
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _names(
    value: ast.expr | None, constants: Constants, within: tuple[str, ...] = ()
) -> Iterator[str | None]:
    """Yield the names of the secrets that a value may be, and None for what is computed. `within`: the names
    that led here."""
    if not _has(value):
        return
    match value:
        case ast.Call(args=[name], keywords=[]) if name_of(value.func) in _SECRETS:
            yield from texts_of(name, constants)
        case ast.Name() | ast.Attribute():
            constant = name_of(value)
            meant = [] if constant in within else constants.get(constant, [])
            for each in meant:
                yield from _names(each, constants, (*within, constant))
            if not meant:
                yield None
        case _:
            yield None
