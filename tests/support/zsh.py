"""Commands that bash and zsh read in different ways when they are pasted at a prompt.

Zsh is the shell of macOS. At its prompt `#` is a command and no comment, a pattern without a matching file is
an error, and variables are not split into words. In both shells `!` recalls a command, also in double quotes.
The tests need no zsh, so this module reads as much of the language as pages use.
"""

import re
from collections.abc import Iterator

_OWN = frozenset(
    (
        "aliases",
        "argv",
        "cdpath",
        "commands",
        "fpath",
        "functions",
        "history",
        "manpath",
        "module_path",
        "options",
        "path",
        "pipestatus",
        "prompt",
        "psvar",
        "signals",
        "status",
        "watch",
    )
)
"""Names in small letters that zsh gives a meaning: setting `path` loses every command."""
_ASSIGNED = re.compile(r"(?:^|[\s;(])(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*')", re.M)
_NAME = re.compile(r"(?:^|[;&|(]|\b(?:export|for|local)\b)\s*([a-z_]+)(?==| in )", re.M)
_TEST = re.compile(r"\[\[?(?=\s)")
"""The commands `[` and `[[`, which begin no pattern."""
_BARE = re.compile(r"\$\{?(\w+)")


def misread(source: str) -> Iterator[str]:
    """Yield what zsh reads in another way, each as its kind and the line that has it."""
    lines = source.splitlines()
    for kind, line in _characters(source):
        yield f"{kind}: {lines[line].strip()}"
    for name in _NAME.findall(source):
        if name in _OWN:
            yield f"zsh's own variable: {name}"


def _characters(source: str) -> Iterator[tuple[str, int]]:
    """Yield the kind and the line's index of each character outside quotes that zsh takes otherwise."""
    several = {m["name"] for m in _ASSIGNED.finditer(source) if re.search(r"\s", m["value"])}
    quotes: list[str] = []
    line = at = 0
    begins = True
    while at < len(source):
        char, quote = source[at], quotes[-1] if quotes else ""
        rest = source[at:]
        if char == "\n":
            line += 1
        if quote == "'":
            if char == "'":
                quotes.pop()
        elif char == "\\":
            line += rest[1:2] == "\n"
            at += 1
        elif rest.startswith("$("):
            quotes.append(")")
            at, begins = at + 2, True
            continue
        elif char == '"' or (char == "'" and quote != '"'):
            if quote == char:
                quotes.pop()
            else:
                quotes.append(char)
        elif char == "!" and re.match(r"![^\s=(\"]", rest):
            yield "recalls a command", line
        elif quote != '"':
            if char == ")" and quote == ")":
                quotes.pop()
            elif char == "#" and begins:
                yield "comment", line
                end = source.find("\n", at)
                at = end if end >= 0 else len(source)
                continue
            elif char == "=" and begins and re.match(r"=\S", rest):
                yield "place of a command", line
            elif begins and (command := _TEST.match(rest)):
                at += len(command[0]) - 1
            elif char in "*?[" and source[at - 1 : at] != "$":
                yield "pattern", line
            elif char == "$" and (bare := _BARE.match(rest)) and bare[1] in several:
                yield "not split", line
        begins = char in " \t\n;&|("
        at += 1
