"""The expressions of DynamoDB that the journal sends, as trees: conditions, keys and updates.

A tree consists of tuples whose first element is the kind. Names and values are still placeholders in it, so
the trees of all requests with the same text are the same, and each text is parsed once."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from layover.desk.local.aws.dynamodb.errors import ValidationError

Tree = tuple[Any, ...]
MAX_LENGTH = 4096
"""Bytes of an expression."""
_TOKEN = re.compile(r"\s*(?:(?P<word>[#:]?[A-Za-z0-9_]+)|(?P<sign><>|<=|>=|[=<>(),]))")
_FUNCTIONS = {"attribute_exists": 1, "attribute_not_exists": 1, "begins_with": 2}
_COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
_CLAUSES = ("SET", "REMOVE", "ADD", "DELETE")


@dataclass(frozen=True)
class Expression:
    """A tree, and the placeholders that it uses."""

    tree: Any
    names: frozenset[str]
    values: frozenset[str]


@lru_cache(maxsize=1024)
def parse_condition(text: str, kind: str = "ConditionExpression") -> Expression:
    """Return a tree of `("and"|"or"|"compare"|"between"|"call", ...)`. Raises ValidationError."""
    parser = _Parser(text, kind)
    return parser.whole(parser.condition)


@lru_cache(maxsize=1024)
def parse_update(text: str) -> Expression:
    """Return a dict: clause -> its actions, `(name, operand)` or, of REMOVE, `(name,)`. Raises
    ValidationError."""
    parser = _Parser(text, "UpdateExpression")
    return parser.whole(parser.update)


class _Parser:
    def __init__(self, text: str, kind: str) -> None:
        self._kind = kind
        if not text.strip():
            raise self._invalid("The expression can not be empty;")
        if len(text.encode()) > MAX_LENGTH:
            raise self._invalid("Expression size has exceeded the maximum allowed size;")
        self._tokens = self._split(text)
        self._at = 0
        self._names: set[str] = set()
        self._values: set[str] = set()

    def whole(self, read: Callable[[], Any]) -> Expression:
        """Return the result of `read` over all tokens."""
        tree = read()
        if self._at < len(self._tokens):
            raise self._unexpected()
        return Expression(tree, frozenset(self._names), frozenset(self._values))

    def condition(self) -> Tree:
        """Read a condition. OR binds least."""
        return self._chain("or", lambda: self._chain("and", self._term))

    def update(self) -> dict[str, list[Tree]]:
        """Read clauses in any order, each at most once."""
        clauses: dict[str, list[Tree]] = {}
        while self._at < len(self._tokens):
            word = self._next().upper()
            if word not in _CLAUSES:
                self._at -= 1
                raise self._unexpected()
            if word in clauses:
                raise self._invalid(
                    f'The "{word}" section can only be used once in an update expression;'
                )
            clauses[word] = self._list(partial(self._action, word))
        return clauses

    def _action(self, word: str) -> Tree:
        name = self._name()
        if word == "REMOVE":
            return (name,)
        if word != "SET":
            return (name, self._value())
        self._expect("=")
        return (name, self._set_operand())

    def _set_operand(self) -> Tree:
        for function in ("if_not_exists", "list_append"):
            if self._peek_call(function):
                left = self._set_operand()
                self._expect(",")
                return self._close((function, left, self._set_operand()))
        return self._operand()

    def _list(self, read: Callable[[], Tree]) -> list[Tree]:
        elements = [read()]
        while self._accept(","):
            elements.append(read())
        return elements

    def _chain(self, word: str, read: Callable[[], Tree]) -> Tree:
        parts = [read()]
        while self._accept(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else (word, tuple(parts))

    def _term(self) -> Tree:
        if self._accept("("):
            return self._close(self.condition())
        for name, arity in _FUNCTIONS.items():
            if self._peek_call(name):
                arguments = self._list(self._operand)
                if len(arguments) != arity:
                    raise self._invalid(
                        f"Incorrect number of operands for operator or function; operator or function: "
                        f"{name}, number of operands: {len(arguments)}"
                    )
                return self._close(("call", name, *arguments))
        left = self._operand()
        for sign in _COMPARATORS:
            if self._accept(sign):
                return ("compare", sign, left, self._operand())
        if not self._accept("between"):
            raise self._unexpected()
        low = self._operand()
        if not self._accept("and"):
            raise self._unexpected()
        return ("between", left, low, self._operand())

    def _operand(self) -> Tree:
        if self._peek_call("size"):
            return self._close(("size", self._name()))
        return self._value() if self._peek().startswith(":") else self._name()

    def _value(self) -> Tree:
        word = self._next()
        if not word.startswith(":"):
            self._at -= 1
            raise self._unexpected()
        self._values.add(word)
        return ("value", word)

    def _name(self) -> Tree:
        word = self._next()
        if word.startswith("#"):
            self._names.add(word)
        elif not word[:1].isalpha():
            self._at -= 1
            raise self._unexpected()
        elif word.upper() in _reserved():
            raise self._invalid(f"Attribute name is a reserved keyword; reserved keyword: {word}")
        return ("name", word)

    def _split(self, text: str) -> list[str]:
        tokens, at = [], 0
        while match := _TOKEN.match(text, at):
            tokens.append(match[0].strip())
            at = match.end()
        if rest := text[at:].strip():
            raise self._invalid(f'Syntax error; token: "{rest[0]}"')
        return tokens

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise self._unexpected()
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek_call(self, name: str) -> bool:
        """Return whether the next tokens are `name(`. Then they are read."""
        if self._tokens[self._at : self._at + 2] != [name, "("]:
            return False
        self._at += 2
        return True

    def _accept(self, token: str) -> bool:
        """Read the next token if it is this sign, or this word in any case. Return whether it was."""
        if self._peek().lower() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._unexpected()

    def _close(self, tree: Tree) -> Tree:
        self._expect(")")
        return tree

    def _unexpected(self) -> ValidationError:
        near = " ".join(self._tokens[max(0, self._at - 1) : self._at + 2])
        return self._invalid(f'Syntax error; token: "{self._peek() or "<EOF>"}", near: "{near}"')

    def _invalid(self, why: str) -> ValidationError:
        return ValidationError(f"Invalid {self._kind}: {why}")


@cache
def _reserved() -> frozenset[str]:
    """Return DynamoDB's reserved words, in upper case, from the file in which moto lists them. moto itself is
    not imported: a start does not wait for it."""
    spec = find_spec("moto")
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        words = Path(folder) / "dynamodb" / "parsing" / "reserved_keywords.txt"
        return frozenset(words.read_text().upper().split())
    return frozenset()
