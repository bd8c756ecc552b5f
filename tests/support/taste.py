"""Counts of what makes code and pages tiring to read. They come from the syntax of the shipped files and
from the text of the pages, so they are the same on every machine. `tests/unit/test_taste.py` holds them."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("layers/shared/python/layover", "functions", "infra")
MAX_POSITIONAL = 5
MAX_BRANCHES = 15
MAX_BODY = 50
"""Lines, without the docstring."""
MAX_NESTING = 3
Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.match_case,
    ast.Assert,
)
PHRASES = {
    "alone": r"\balone\b",
    "beside": r"\bbeside\b(?!-)",
    "is no": r"\b(there\s+)?is\s+no\b(?!\s+longer)",
    "of its own": r"\bof\s+its\s+own\b",
}
"""Turns of phrase that read translated. "There is no" and "is no longer" are English, and are not counted."""


@dataclass(frozen=True)
class Source:
    """A shipped file of Python. `name`: its path below the root."""

    name: str
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the syntax: many counts look at all of them."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function, methods and inner ones, too."""
        return tuple(node for node in self.nodes if isinstance(node, Function))

    @cached_property
    def strings(self) -> tuple[tuple[int, str], ...]:
        """Every text in the code, with its line."""
        return tuple(
            (node.lineno, node.value)
            for node in self.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


def shipped_files(root: Path) -> list[Path]:
    """Return the files of Python that are shipped, without the examples of agents."""
    found = (path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return sorted(path for path in found if not {"cdk.out", "user_agents"} & set(path.parts))


@cache
def sources(root: Path = ROOT) -> tuple[Source, ...]:
    """Return the shipped files, each read and parsed once."""
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in shipped_files(root)}
    return tuple(Source(name, text, ast.parse(text)) for name, text in texts.items())


def pages(root: Path = ROOT) -> dict[str, str]:
    """Return the text of each page that people read, by its name."""
    paths = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def functions_of(tree: ast.Module) -> Iterator[Function]:
    """Yield every function of a file, methods and inner ones, too."""
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def has_many_positional(call: ast.Call) -> bool:
    """Return whether a call leaves its reader to count arguments. A starred one has a name."""
    return len(call.args) > MAX_POSITIONAL and not any(
        isinstance(arg, ast.Starred) for arg in call.args
    )


def branches(function: Function) -> int:
    """Return the number of ways through a function, with those of its inner functions."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def nesting(node: ast.AST, depth: int = 0) -> int:
    """Return how deep the deepest block of a function is. An `elif` is as deep as its `if`."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deeper = isinstance(child, BLOCKS) and not is_elif
        deepest = max(deepest, nesting(child, depth + deeper))
    return deepest


def body_lines(function: Function) -> int:
    """Return the lines of a function's statements, without its docstring."""
    statements = function.body[ast.get_docstring(function, clean=False) is not None :]
    if not statements:
        return 0
    last = statements[-1]
    return (last.end_lineno or last.lineno) - statements[0].lineno + 1


def share_of_private_used_once(root: Path = ROOT) -> float:
    """Return the share of all functions, in percent, that are private and have one mention in their file
    beyond their definition."""
    once = every = 0
    for source in sources(root):
        words = Counter(re.findall(r"\w+", source.text))
        names = [function.name for function in source.functions]
        every += len(names)
        once += sum(words[name] == 2 for name in names if re.match(r"_[^_]", name))
    return 100 * once / every


def calls_by_position(root: Path = ROOT) -> list[str]:
    """Return the places of calls with too many positional arguments."""
    return [
        f"{source.name}:{node.lineno}"
        for source in sources(root)
        for node in source.nodes
        if isinstance(node, ast.Call) and has_many_positional(node)
    ]


def _functions(root: Path) -> Iterator[tuple[str, Function]]:
    for source in sources(root):
        for function in source.functions:
            yield f"{source.name}:{function.lineno} {function.name}", function


def branched(root: Path = ROOT) -> list[str]:
    """Return the functions with too many branches, with how many they have."""
    counts = ((place, branches(function)) for place, function in _functions(root))
    return [f"{place} ({count})" for place, count in counts if count > MAX_BRANCHES]


def long_bodies(root: Path = ROOT) -> list[str]:
    """Return the functions with a long body, with its lines."""
    counts = ((place, body_lines(function)) for place, function in _functions(root))
    return [f"{place} ({count})" for place, count in counts if count > MAX_BODY]


def nested(root: Path = ROOT) -> list[str]:
    """Return the functions with blocks that are too deep."""
    return [place for place, function in _functions(root) if nesting(function) > MAX_NESTING]


def in_pages(phrase: str, root: Path = ROOT) -> list[str]:
    """Return the places of a phrase in the pages. A line may end inside of it."""
    return [
        f"{name}:{text.count(chr(10), 0, start) + 1}"
        for name, text in pages(root).items()
        for start in _starts(phrase, text)
    ]


def in_strings(phrase: str, root: Path = ROOT) -> list[str]:
    """Return the places of a phrase in docstrings and messages."""
    return [
        f"{source.name}:{line + text.count(chr(10), 0, start)}"
        for source in sources(root)
        for line, text in source.strings
        for start in _starts(phrase, text)
    ]


def _starts(phrase: str, text: str) -> Iterator[int]:
    for match in re.finditer(PHRASES[phrase], text, re.IGNORECASE):
        if not match[0].lower().startswith("there"):
            yield match.start()
