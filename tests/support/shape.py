"""A report on how the code is built: `PYTHONPATH=tests:. .venv/bin/python -m support.shape`.

It answers questions and passes no judgement: a long file that reads from top to bottom beats three short ones
that do not. Read it before and after you move rooms."""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import grimp

from support.taste import (
    MAX_BODY,
    MAX_BRANCHES,
    MAX_NESTING,
    MAX_POSITIONAL,
    PHRASES,
    ROOT,
    branched,
    calls_by_position,
    functions_of,
    in_pages,
    in_strings,
    long_bodies,
    nested,
    share_of_private_used_once,
    shipped_files,
)

HOT_FILES = (
    "layers/shared/python/layover/engine/tools/calls.py",
    "layers/shared/python/layover/engine/frames/frame.py",
    "layers/shared/python/layover/engine/work.py",
    "layers/shared/python/layover/adapters/journal/runlog.py",
)
"""Where the order of two lines decides what a death between them means."""
SMALL = 100
"""Lines."""


def count_comments(text: str) -> tuple[int, int]:
    """Return lines with a comment (directives for tools do not count), and lines of code without strings that
    stand for themselves."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(type:|noqa|pragma)", token.string)
    }
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    code = {
        line
        for token in tokens
        if token.type not in (*silent, tokenize.ENDMARKER)
        for line in range(token.start[0], token.end[0] + 1)
    }
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return len(comments), len(code - docstrings)


def is_star_literal(node: ast.AST) -> bool:
    """Return whether a literal is unpacked where it stands: `f(*(a, b))`, `{*("a", "b")}`."""
    return isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List)


def report(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each figure with its value."""
    files = shipped_files(root)
    texts = {path: path.read_text() for path in files}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = [len(text.splitlines()) for text in texts.values()]
    functions = [function for tree in trees.values() for function in functions_of(tree)]
    lengths = sorted((f.end_lineno or f.lineno) - f.lineno + 1 for f in functions)
    all_nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    yield "folders", str(len({path.parent for path in files}))
    yield "files", str(len(files))
    yield "lines", f"{sum(lines):,}; the longest file {max(lines)}"
    yield "functions", f"{len(functions):,}"
    middle, p95 = statistics.median(lengths), lengths[int(0.95 * len(lengths))]
    yield "lines of a function", f"median {middle:g}, p95 {p95}, longest {lengths[-1]}"
    share = share_of_private_used_once(root)
    yield "private functions mentioned once", f"{share:.1f} % of all"
    yield "star-literals", str(sum(map(is_star_literal, all_nodes)))
    many = calls_by_position(root)
    yield f"calls with more than {MAX_POSITIONAL} positional arguments", str(len(many))
    yield f"functions with more than {MAX_BRANCHES} branches", str(len(branched(root)))
    yield f"functions with more than {MAX_BODY} lines", str(len(long_bodies(root)))
    yield f"functions with blocks deeper than {MAX_NESTING}", str(len(nested(root)))
    yield from _importers(texts, root)
    yield from _comments(texts, root)
    yield from _phrases(root)


def _importers(texts: dict[Path, str], root: Path) -> Iterator[tuple[str, str]]:
    graph = grimp.build_graph("layover", "functions", "infra", cache_dir=None)
    names = {
        ".".join(path.relative_to(root / folder).with_suffix("").parts): len(text.splitlines())
        for path, text in texts.items()
        for folder in ("layers/shared/python", ".")
        if path.is_relative_to(root / folder) and path.name != "__init__.py"
    }
    read_once = [
        lines
        for name, lines in names.items()
        if name in graph.modules and len(graph.find_modules_that_directly_import(name)) == 1
    ]
    small = sum(lines < SMALL for lines in read_once)
    yield "files with one reader", f"{len(read_once)}, {small} of them below {SMALL} lines"


def _comments(texts: dict[Path, str], root: Path) -> Iterator[tuple[str, str]]:
    counts = {path: count_comments(text) for path, text in texts.items()}
    every = [sum(part) for part in zip(*counts.values(), strict=True)]
    yield "lines with a comment, to lines of code", f"{every[0] / every[1]:.1%}"
    for name in HOT_FILES:
        if root / name in counts:
            comments, code = counts[root / name]
            yield f"  {Path(name).name}", f"{comments / code:.1%} ({comments} to {code})"


def _phrases(root: Path) -> Iterator[tuple[str, str]]:
    for kind, places in (("docs", in_pages), ("docstrings and messages", in_strings)):
        found = {phrase: len(places(phrase, root)) for phrase in PHRASES}
        yield f"phrases in {kind}", ", ".join(f"{name} {count}" for name, count in found.items())


if __name__ == "__main__":
    for figure, value in report(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT):
        print(f"{figure:50} {value}")
