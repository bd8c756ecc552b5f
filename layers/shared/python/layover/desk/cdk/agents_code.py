"""The code that a project's agents import, module by module: read, and not run."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from layover.desk.cdk.reading import name_of, trees_of

_CATCHES = {
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), ("import",)),
    **dict.fromkeys(("KeyError", "LookupError"), ("key",)),
    **dict.fromkeys(("Exception", "BaseException"), ("import", "key")),
}
"""Kinds of failures that the handler of an error makes harmless."""
_LOADERS = frozenset({"importlib", "pkgutil", "runpy"})
"""Modules by which code imports what no import statement names."""


@dataclass(frozen=True)
class Within:
    """The surroundings of a piece of code.

    Attributes:
        at_import: It runs when its module is imported, and not only when somebody calls it.
        certain: Nothing decides whether it runs.
        tested: Its value is only tested, or replaced where it is missing.
        caught: Whose failure is caught there: `import`, `key`.
    """

    at_import: bool = True
    certain: bool = True
    tested: bool = False
    caught: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Piece:
    """A node with its place. `in_use`: its module is certain to be imported with the agents."""

    node: ast.AST
    file: Path
    line: int
    within: Within
    in_use: bool

    @property
    def certain(self) -> bool:
        """True if it runs, or would run in the function that has it, whatever the circumstances."""
        return self.in_use and self.within.certain

    @property
    def at_import(self) -> bool:
        """True if it runs whenever the agents are imported."""
        return self.certain and self.within.at_import


@dataclass(frozen=True)
class AgentsCode:
    """The code of a module of agents.

    Args:
        module: Its name: `agents`, `shop.agents`.
        folders: Where Python looks for modules of the project: the first one has the agents'.
    """

    module: str
    folders: Sequence[Path]
    _trees: dict[Path, ast.Module] = field(default_factory=dict, compare=False)

    @property
    def top(self) -> str:
        """The package, or module, that is deployed."""
        return self.module.partition(".")[0]

    def find(self, name: str) -> Path | None:
        """Return the file of a module of the project; of a folder without `__init__.py`, the folder."""
        for folder in self.folders:
            base = folder.joinpath(*name.split("."))
            for file in (base / "__init__.py", base.with_suffix(".py")):
                if file.is_file():
                    return file
            if base.is_dir() and any(base.glob("*.py")):
                return base
        return None

    @cached_property
    def imported(self) -> frozenset[Path]:
        """The files that are certain to be imported with the agents."""
        return frozenset(self._reached(only_certain=True))

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """All files that may be imported, in order: those that imports name, and the whole package where code
        looks for modules by itself."""
        reached = self._reached(only_certain=False)
        if any(name in _LOADERS for file in reached for name, _ in self._names_in(file)):
            base = self.folders[0] / self.top
            reached |= {f for f in trees_of([base]) if base.is_dir()}
        return tuple(sorted(reached))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Every piece of code."""
        return tuple(
            Piece(node, file, getattr(node, "lineno", 1), within, file in self.imported)
            for file in self.files
            for node, within in walk(self._tree(file))
        )

    def trees(self) -> list[ast.Module]:
        """Return all modules, parsed."""
        return [self._tree(file) for file in self.files]

    def names(self, piece: Piece) -> Iterator[str]:
        """Yield the full names of the modules that a piece imports, if it is an import."""
        yield from _imported(piece.node, self._package_of(piece.file))

    def _reached(self, *, only_certain: bool) -> set[Path]:
        waiting, names, files = [*_with_parents(self.module)], set[str](), set[Path]()
        while waiting:
            name = waiting.pop()
            file = None if name in names else self.find(name)
            names.add(name)
            if file is None or not file.is_file():
                continue
            files.add(file)
            for each, within in self._names_in(file):
                if not only_certain or (within.at_import and within.certain):
                    waiting += _with_parents(each)
        return files

    def _names_in(self, file: Path) -> Iterator[tuple[str, Within]]:
        package = self._package_of(file)
        for node, within in walk(self._tree(file)):
            for name in _imported(node, package):
                yield name, within

    def _tree(self, file: Path) -> ast.Module:
        """Return the module; an empty one for a file that is not Python, of which its import will tell."""
        if file not in self._trees:
            self._trees[file] = trees_of([file]).get(file, ast.Module([], []))
        return self._trees[file]

    def _package_of(self, file: Path) -> str:
        folder = next((f for f in self.folders if file.is_relative_to(f)), file.parent)
        return ".".join(file.parent.relative_to(folder).parts)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the names that an import may bring, as `from a import b` does `a.b`, if that is a module."""
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package.split(".")[: -(level - 1) or None] if level else []
            base = ".".join([*filter(None, above), *([module] if module else [])])
            if base:
                yield base
            yield from (f"{base}.{each.name}" if base else each.name for each in names)


def walk(tree: ast.AST, within: Within = Within()) -> Iterator[tuple[ast.AST, Within]]:
    """Yield every node that may run, with what surrounds it. Code for type checkers and for a module that is
    run by itself is left out."""
    yield tree, within
    for child, inner in _children(tree, within):
        yield from walk(child, inner)


def _children(node: ast.AST, within: Within) -> Iterator[tuple[ast.AST, Within]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            yield from _function(node, within)
        case ast.If() | ast.IfExp() | ast.While():
            yield from _condition(node, within)
        case ast.BoolOp(values=[first, *others]):
            *middle, last = others
            yield first, replace(within, tested=True)
            yield from _all(middle, replace(within, tested=True, certain=False))
            yield last, replace(within, certain=False)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            yield from _all(ast.iter_child_nodes(node), replace(within, tested=True))
        case ast.Try() | ast.TryStar():
            caught = frozenset(_caught(node.handlers))
            yield from _all(node.body, replace(within, caught=within.caught | caught))
            yield from _all(node.handlers, replace(within, certain=False))
            yield from _all([*node.orelse, *node.finalbody], within)
        case ast.With() | ast.AsyncWith():
            caught = frozenset(_suppressed(node.items))
            yield from _all(node.items, within)
            yield from _all(node.body, replace(within, caught=within.caught | caught))
        case ast.For() | ast.AsyncFor():
            yield from _all([node.target, node.iter], within)
            yield from _all([*node.body, *node.orelse], replace(within, certain=False))
        case ast.match_case() | ast.comprehension():
            yield from _all(ast.iter_child_nodes(node), replace(within, certain=False))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield node.generators[0].iter, within
            yield from _all(ast.iter_child_nodes(node), replace(within, certain=False))
        case _:
            yield from _all(ast.iter_child_nodes(node), replace(within, tested=False))


def _all(nodes: Iterable[ast.AST], within: Within) -> Iterator[tuple[ast.AST, Within]]:
    yield from ((node, within) for node in nodes)


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, within: Within
) -> Iterator[tuple[ast.AST, Within]]:
    """Yield what runs where the function is made, and then its body."""
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    decorators: Sequence[ast.AST] = [] if isinstance(node, ast.Lambda) else node.decorator_list
    yield from _all([*decorators, *defaults], within)
    body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    yield from _all(body, replace(within, at_import=False, certain=True))


def _condition(
    node: ast.If | ast.IfExp | ast.While, within: Within
) -> Iterator[tuple[ast.AST, Within]]:
    body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.IfExp) else node.body
    orelse: Sequence[ast.AST] = [node.orelse] if isinstance(node, ast.IfExp) else node.orelse
    if name_of(node.test) == "TYPE_CHECKING" or _is_main(node.test):
        yield from _all(orelse, within)
        return
    yield node.test, replace(within, tested=True)
    yield from _all([*body, *orelse], replace(within, certain=False))


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and name_of(test.left) == "__name__"


def _caught(handlers: Iterable[ast.ExceptHandler]) -> Iterator[str]:
    """Yield what handlers make harmless: one that raises again makes nothing so."""
    for handler in handlers:
        nodes = [node for each in handler.body for node in ast.walk(each)]
        ends = any(isinstance(n, ast.Call) and name_of(n.func) == "exit" for n in nodes)
        if ends or any(isinstance(node, ast.Raise) for node in nodes):
            continue
        yield from _harmless([handler.type] if handler.type else [ast.Name("Exception")])


def _suppressed(items: Iterable[ast.withitem]) -> Iterator[str]:
    for item in items:
        match item.context_expr:
            case ast.Call(func=function, args=errors) if name_of(function) == "suppress":
                yield from _harmless(errors)


def _harmless(errors: Iterable[ast.expr]) -> Iterator[str]:
    for error in errors:
        each = error.elts if isinstance(error, ast.Tuple) else [error]
        for name in map(name_of, each):
            yield from _CATCHES.get(name, ())
