"""Docstrings of the front door: they list every parameter, and their examples run as written."""

import ast
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_overloads

import pytest
from pydantic import BaseModel

import layover
from layover import models, testing
from support.api_page import PAGE, shown_names

_FENCED = re.compile(r"^(?P<indent> *)```python\n(?P<source>.*?)^(?P=indent)```$", re.M | re.S)
_SECTION = re.compile(r"^(?P<title>[A-Z][\w ]*):\n(?P<body>(?:(?: {4}.*)?(?:\n|\Z))+)", re.M)
_ITEM = re.compile(r"^ {4}\*{0,2}(?P<name>\w+)(?: \(.*?\))?: ", re.M)
GIVEN = ("Args", "Keyword Args")


def exports() -> Iterator[tuple[str, Any]]:
    """Public classes and functions. `Event` is a union, which has no docstring."""
    for module in (layover, models, testing):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value


def methods_of(cls: type) -> dict[str, Any]:
    """Public methods of a class and of its bases in Layover."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("layover"):
            for name, value in list(vars(base).items()):
                function = getattr(value, "__func__", value)
                if not name.startswith("_") and inspect.isfunction(function):
                    found.setdefault(name, function)
    return found


EXPORTS = dict(exports())
METHODS = {
    f"{name}.{method}": function
    for name, value in EXPORTS.items()
    if inspect.isclass(value)
    for method, function in methods_of(value).items()
}
SHOWN = {
    f"{shown.name}.{member}"
    for shown in shown_names(PAGE.read_text("utf-8"))
    if shown.name in EXPORTS and inspect.isclass(EXPORTS[shown.name])
    for member in (methods_of(EXPORTS[shown.name]) if shown.members is None else shown.members)
}
"""Members that the page of the Python API shows."""


def doc_of(value: Any) -> str:
    """Return its own docstring: a class shows none of its base's."""
    return inspect.cleandoc(
        vars(value).get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or ""
    )


def examples_of(doc: str) -> list[str]:
    return [textwrap.dedent(match["source"]) for match in _FENCED.finditer(doc)]


def documented(doc: str, *titles: str) -> list[str]:
    """Return the names in the sections of these titles."""
    bodies = [section["body"] for section in _SECTION.finditer(doc) if section["title"] in titles]
    return [item["name"] for body in bodies for item in _ITEM.finditer(body)]


def parameters_of(value: Any) -> set[str]:
    """Return what a caller may give, or what a reader finds in an object."""
    if not inspect.isclass(value):
        signatures = [inspect.signature(each) for each in get_overloads(value) or [value]]
        return {name for each in signatures for name in each.parameters} - {"self", "cls"}
    if issubclass(value, BaseModel):
        return {name for name, field in value.model_fields.items() if field.exclude is not True}
    if is_dataclass(value):
        return {field.name for field in fields(value) if field.init}
    if getattr(value, "_is_protocol", False):
        return set()  # nobody makes one
    makers = [base for base in value.__mro__ if "__init__" in vars(base)]
    if not makers[0].__module__.startswith("layover") or issubclass(value, Enum):
        return set()
    if issubclass(value, Exception) and makers[0] is not value:
        return set()  # its family's
    return set(inspect.signature(value).parameters)


def misnamed(value: Any) -> list[str]:
    """Return what a docstring's lists lack, and what they name that is not there."""
    doc, known = doc_of(value), parameters_of(value)
    given, attributes = documented(doc, *GIVEN), documented(doc, "Attributes")
    hidden = set(getattr(value, "model_fields", ()))  # fields that JSON leaves out, too
    every = [*given, *attributes]
    lacking = [f"lacks {name}" for name in sorted(known - set(every))]
    strange = [f"names {name}, which is not there" for name in given if name not in known]
    strange += [
        f"names {name}, which is not there"
        for name in attributes
        if name not in known | hidden | {*getattr(value, "__annotations__", ())}
        and not hasattr(value, name)
    ]
    twice = [f"names {name} twice" for name in sorted(set(every)) if every.count(name) > 1]
    return lacking + strange + twice


EXAMPLES = [
    pytest.param(source, id=f"{name}-{number}" if number else name)
    for name, value in {**EXPORTS, **METHODS}.items()
    for number, source in enumerate(examples_of(doc_of(value)))
]


def test_an_example_that_is_wrong_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run("assert 1 + 1 == 3\n", tmp_path)


def test_lists_that_differ_from_the_signature_are_seen() -> None:
    def paid(amount: int, currency: str) -> None:
        """Pay.

        Args:
            amount: Cents.
            payee: Who gets it.
        """

    assert misnamed(paid) == ["lacks currency", "names payee, which is not there"]


def run(source: str, folder: Path) -> None:
    """Run an example as a reader does who pastes it into a file."""
    file = folder / "example.py"
    file.write_text(source, "utf-8")
    runpy.run_path(str(file), run_name="example")


@pytest.mark.parametrize("source", EXAMPLES)
def test_example_runs(source: str, tmp_path: Path) -> None:
    run(source, tmp_path)


@pytest.mark.parametrize("source", EXAMPLES)
def test_example_asserts_what_comes_out(source: str) -> None:
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))


def test_every_fence_of_a_docstring_is_an_example_that_runs() -> None:
    docs = {name: doc_of(value) for name, value in {**EXPORTS, **METHODS}.items()}
    fences = {name: (doc.count("```"), doc.count("Example:\n")) for name, doc in docs.items()}
    found = {name: len(examples_of(doc)) for name, doc in docs.items()}
    assert fences == {name: (2 * number, number) for name, number in found.items()}


@pytest.mark.parametrize("name", list(EXPORTS))
def test_every_parameter_of_an_export_is_documented_and_no_other(name: str) -> None:
    assert misnamed(EXPORTS[name]) == []


@pytest.mark.parametrize("name", [name for name in METHODS if name in SHOWN])
def test_every_parameter_of_a_shown_method_is_documented_and_no_other(name: str) -> None:
    assert misnamed(METHODS[name]) == []


@pytest.mark.parametrize("name", list(EXPORTS))
def test_every_export_has_one_example(name: str) -> None:
    assert len(examples_of(doc_of(EXPORTS[name]))) == 1
