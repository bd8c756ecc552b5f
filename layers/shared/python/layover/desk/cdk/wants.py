"""Wants of the agents' code: variables, secrets, servers and packages that it asks of its stage."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from layover.desk.cdk.agents_code import AgentsCode, Piece
from layover.desk.cdk.reading import Constants, constants_of, name_of, texts_of

_PACKAGE = "layover"
_SECRETS = ("secret", "Secret")
_CLIENTS: Mapping[str, str] = {"mcp": "mcp", "OpenAIModel": "openai"}
"""The package that each of these needs, none of which the layer has."""


class Kind(StrEnum):
    """Kinds of wants."""

    VARIABLE = "variable"
    """One without which the code fails: `os.environ["SHOP_URL"]`."""
    OPTIONAL = "optional"
    """One that may be missing, as far as the code tells: `os.getenv("SHOP_URL")`."""
    SECRET = "secret"
    """`secret("SHOP_KEY")`."""
    SERVER = "server"
    """The address of a server of tools."""
    PACKAGE = "package"
    """A package that a class or a function of Layover needs."""
    IMPORT = "import"
    """A module, by the first part of its name."""


@dataclass(frozen=True)
class Want:
    """One thing that the code asks for.

    Attributes:
        kind: What it is.
        name: Its name: of the variable, the secret, the package; the URL of a server.
        piece: The code that asks, the most certain one if several do.
    """

    kind: Kind
    name: str
    piece: Piece

    @property
    def weight(self) -> tuple[bool, bool]:
        """The larger, the more certain it is to be missed."""
        return (self.piece.at_import, self.piece.certain)


def wants_of(code: AgentsCode) -> list[Want]:
    """Return what the code asks for, each thing once, in the order in which the code has it."""
    wants: dict[tuple[Kind, str], Want] = {}
    for each in _Reader(code).read():
        key = (each.kind, each.name)
        if key not in wants or each.weight > wants[key].weight:
            wants[key] = each
    # What is read in both ways is needed.
    needed = {name for kind, name in wants if kind is Kind.VARIABLE}
    return [e for e in wants.values() if e.kind is not Kind.OPTIONAL or e.name not in needed]


@dataclass(frozen=True)
class _Reader:
    code: AgentsCode

    @cached_property
    def _constants(self) -> Constants:
        return constants_of(self.code.trees())

    @cached_property
    def _set(self) -> frozenset[str]:
        """Variables that the code sets by itself."""
        names: set[str] = set()
        for piece in self.code.pieces:
            match piece.node:
                case ast.Subscript(value=of, slice=name, ctx=ast.Store()) if _is_environ(of):
                    names |= set(self._texts(name))
                case ast.Call(func=ast.Attribute(value=of, attr="setdefault"), args=[name, *_]) if (
                    _is_environ(of)
                ):
                    names |= set(self._texts(name))
        return frozenset(names)

    def read(self) -> Iterator[Want]:
        for piece in self.code.pieces:
            match piece.node:
                case ast.Import() | ast.ImportFrom():
                    yield from self._imports(piece)
                case ast.Subscript(value=of, slice=name, ctx=ast.Load()) if _is_environ(of):
                    yield from self._variable(piece, name)
                case ast.Call(func=function, args=args, keywords=options):
                    yield from self._call(piece, function, args, options)

    def _imports(self, piece: Piece) -> Iterator[Want]:
        if "import" not in piece.within.caught:
            for name in dict.fromkeys(n.partition(".")[0] for n in self.code.names(piece)):
                yield Want(Kind.IMPORT, name, piece)

    def _variable(self, piece: Piece, name: ast.expr) -> Iterator[Want]:
        if "key" not in piece.within.caught:
            for text in self._texts(name):
                if text not in self._set:
                    yield Want(Kind.VARIABLE, text, piece)

    def _call(
        self,
        piece: Piece,
        function: ast.expr,
        args: list[ast.expr],
        options: list[ast.keyword],
    ) -> Iterator[Want]:
        name = self._name_of_ours(piece, function)
        if name in _SECRETS and len(args) == 1:
            yield from self._each(Kind.SECRET, args[0], piece)
        elif name in _CLIENTS:
            yield Want(Kind.PACKAGE, _CLIENTS[name], piece)
            if name == "mcp":
                urls = args[:1] or [each.value for each in options if each.arg == "url"]
                for url in urls:
                    yield from self._each(Kind.SERVER, url, piece)
        elif _may_be_missing(function) and len(args) == 1 and not (options or piece.within.tested):
            for want in self._each(Kind.OPTIONAL, args[0], piece):
                if want.name not in self._set:
                    yield want

    def _each(self, kind: Kind, value: ast.expr, piece: Piece) -> Iterator[Want]:
        yield from (Want(kind, text, piece) for text in self._texts(value))

    def _texts(self, value: ast.expr) -> Iterator[str]:
        """Yield the texts that a value may be, without those that are computed. A name in small letters may
        be a parameter, whose texts nobody knows."""
        if (name := name_of(value)) and not name.isupper():
            return
        yield from (text for text in texts_of(value, self._constants) if text)

    def _name_of_ours(self, piece: Piece, function: ast.expr) -> str:
        """Return the name that a function has in Layover; "" for one that is not Layover's."""
        if isinstance(function, ast.Attribute):
            return function.attr if name_of(function.value) in (_PACKAGE, "models") else ""
        return self._ours.get((piece.file, name_of(function)), "")

    @cached_property
    def _ours(self) -> Mapping[tuple[Path, str], str]:
        """Names of Layover by the modules that import them, and by their names there."""
        return {
            (piece.file, each.asname or each.name): each.name
            for piece in self.code.pieces
            if isinstance(piece.node, ast.ImportFrom) and _is_of_layover(piece.node)
            for each in piece.node.names
        }


def _is_of_layover(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").partition(".")[0] == _PACKAGE


def _is_environ(value: ast.expr) -> bool:
    return name_of(value) == "environ"


def _may_be_missing(function: ast.expr) -> bool:
    """Return whether this is `os.getenv` or `os.environ.get`."""
    if isinstance(function, ast.Attribute) and function.attr == "get":
        return _is_environ(function.value)
    return name_of(function) == "getenv"
