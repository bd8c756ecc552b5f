"""The strings of JSON as models write them, and how they were meant (`layover.values.json_answer`)."""

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = rf"\\u[dD][89abAB]{_HEX}{{2}}", rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
"""The halves of a character, as escapes."""
_TOKEN = re.compile(
    rf"""
    {_HIGH}{_LOW}
    |(?P<half>(?:{_HIGH}|{_LOW})(?!\\?(?:u{_HEX}{{0,3}})?\Z))
    |\\u(?:{_HEX}{{4}}|{_HEX}{{0,3}}\Z)  # an escape, or the beginning of one
    |(?P<either>\\[nt](?=[a-z]))         # a line's end, or the beginning of \nu
    |(?P<command>\\[bfr](?=[a-zA-Z]))
    |\\["\\/bfnrt\x00-\x1f]
    |(?P<lone>\\(?!\Z))
    |(?P<raw>[\x01-\x1f])
    """,
    re.DOTALL | re.VERBOSE,
)


def mend_strings(text: str) -> str:
    """Return JSON with its strings as they were meant (`escape_raw`)."""
    return _STRING.sub(_mend, text)


def _mend(string: re.Match[str]) -> str:
    kinds = {token.lastgroup for token in _TOKEN.finditer(string[0])}
    escapes_none = "lone" in kinds and "either" not in kinds

    def mended(token: re.Match[str]) -> str:
        match token.lastgroup:
            case "raw":
                return f"\\u{ord(token[0]):04x}"
            case "half":
                return r"\ufffd"
            case "lone" | "command" if escapes_none:
                return "\\" + token[0]
        return token[0]

    return _TOKEN.sub(mended, string[0]) if kinds - {None, "either"} else string[0]
