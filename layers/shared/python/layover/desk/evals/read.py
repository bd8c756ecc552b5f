"""Reading a file of cases. What is wrong is said with its line, before anything runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from layover import project
from layover.desk.evals.cases import CaseFile
from layover.desk.failures import CommandFailed
from layover.errors import unknown_name
from layover.values.base import MAX_DEPTH, strict_json, too_deep
from layover.values.refusals import refusal

Place = tuple[int | str, ...]
_NO_MORE = "contains itself, or nests too deep"


class CasesInvalid(CommandFailed):
    """The file cannot be used. The message has a line for everything that is wrong, with its place and what
    to do."""


def read_cases(file: Path) -> CaseFile:
    """Return the cases of a YAML or JSON file. Raises CasesInvalid."""
    text = text_of(file)
    if not text.strip():
        raise CasesInvalid(f"{file} is empty: write `cases:` with a list of cases")
    return parse_cases(text, file)


def text_of(file: Path) -> str:
    """Return the text of a file of cases. Raises CasesInvalid."""
    try:
        return project.text_of(file)
    except project.ProjectInvalid as error:
        raise CasesInvalid(str(error)) from error


def parse_cases(text: str, file: Path) -> CaseFile:
    """Return the cases of this text, whose errors name the file. Raises CasesInvalid."""
    try:
        value, lines = _json(text, file) if file.suffix == ".json" else _yaml(text, file)
    except RecursionError:
        raise CasesInvalid(f"{file} {_NO_MORE}") from None
    if too_deep(value):
        raise CasesInvalid(f"{file} {_NO_MORE}: at most {MAX_DEPTH} levels")
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a text or a number"
        raise CasesInvalid(f"{file}:1: an object with `cases` is needed, not {kind}")
    problems = list(_problems(value))
    if problems:
        placed = sorted((_line_of(lines, place), text) for place, text in problems)
        raise CasesInvalid("\n".join(f"{file}:{line}: {text}" for line, text in placed))
    return CaseFile.model_validate(value)


def _problems(value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    try:
        CaseFile.model_validate(value)
    except ValidationError as error:
        places = set()
        for each in error.errors(include_url=False):
            place = _place_in(value, each["loc"])
            if place not in places:  # of a union, the first reason
                yield place, _sentence(value, place, each)
            places.add(place)
        return
    names: set[str] = set()
    for index, case in enumerate(value["cases"]):
        if case["name"] in names:
            place = ("cases", index, "name")
            yield place, f"{_owner(value, place)}a case above has the same name: give another one"
        names.add(case["name"])


def _sentence(value: dict[str, Any], place: Place, error: Mapping[str, Any]) -> str:
    """Return pydantic's error as a sentence about the key."""
    owner, rest = _owner(value, place), place[2:] if place[:1] == ("cases",) else place
    if error["type"] == "extra_forbidden":
        where = f"{_path(rest[:-1])}: " if rest[:-1] else ""
        choices = _keys_at(place[:-1])
        return f"{owner}{where}{unknown_name('option', place[-1], choices)}"
    if error["type"] == "missing":
        where = f"{_path(rest[:-1])}: " if rest[:-1] else ""
        return f"{owner}{where}`{place[-1]}` is missing: add it"
    where = _path(rest)
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
        if message.startswith("it "):
            return f"{owner}{where}{message[2:]}"
        is_named = not where or message.startswith(where)
        return f"{owner}{message}" if is_named else f"{owner}{where}: {message}"
    return f"{owner}{refusal(where, error)}"


def _owner(value: dict[str, Any], place: Place) -> str:
    """Return `cases[3] (its name): `; empty for what is in no case."""
    if len(place) < 2 or place[0] != "cases":
        return ""
    case = value["cases"][place[1]]
    name = case.get("name") if isinstance(case, dict) else None
    text = f" ({' '.join(name.split())[:60]})" if isinstance(name, str) and name else ""
    return f"cases[{place[1]}]{text}: "


def _path(place: Sequence[int | str]) -> str:
    """Return `expect.tools[0].args`."""
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place)
    return text.removeprefix(".")


def _place_in(value: Any, loc: Sequence[int | str]) -> Place:
    """Return the place of an error in the file. Pydantic names the member of a union in between, and the
    fields of parts of a tuple; a key that is missing ends the way."""
    way: list[int | str] = []
    for index, step in enumerate(loc):
        is_there = isinstance(value, dict) and step in value
        is_there |= isinstance(value, list) and isinstance(step, int) and step < len(value)
        if is_there:
            way.append(step)
            value = value[step]
        elif index == len(loc) - 1 and isinstance(value, dict):
            way.append(step)
    return tuple(way)


def _keys_at(place: Place) -> list[str]:
    """Return the keys that may be written at a place."""
    model: Any = CaseFile
    for step in place:
        if isinstance(step, str):
            names = {f.alias or name: f for name, f in model.model_fields.items()}
            model = _model_in(names[step].annotation) if step in names else None
        if model is None:
            return []
    return [f.alias or name for name, f in model.model_fields.items()]


def _model_in(annotation: Any) -> Any:
    """Return the model that an annotation is made of; None: it has none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _line_of(lines: Mapping[Place, int], place: Place) -> int:
    """Return the line of a place, or of the nearest one around it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _json(text: str, file: Path) -> tuple[Any, Mapping[Place, int]]:
    try:
        value = strict_json(text)
    except json.JSONDecodeError as error:
        raise CasesInvalid(f"{file}:{error.lineno}: not JSON: {error.msg}") from error
    except ValueError as error:
        raise CasesInvalid(f"{file}: not JSON: {error}") from error
    # JSON is YAML, too, and YAML knows the lines: tabs are the exception, and the same as blanks here.
    return value, _yaml(text.replace("\t", " "), file)[1]


def _yaml(text: str, file: Path) -> tuple[Any, Mapping[Place, int]]:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Without dates: the arguments of a call are JSON, and have texts there."""

        yaml_implicit_resolvers = {
            first: [(tag, regex) for tag, regex in each if not tag.endswith(":timestamp")]
            for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    loader = Loader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        if node is not None:
            _note_lines(node, (), lines, file)
        return (loader.construct_document(node) if node is not None else None), lines
    except CasesInvalid:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise CasesInvalid(f"{file}:{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise CasesInvalid(f"{file}: not YAML: {error}") from error
    finally:
        loader.dispose()


def _note_lines(node: Any, place: Place, lines: dict[Place, int], file: Path) -> None:
    """Note the line of every key. Raises CasesInvalid for a key that is there twice, of which YAML would take
    the last."""
    lines.setdefault(place, node.start_mark.line + 1)
    if node.id == "sequence":
        for index, each in enumerate(node.value):
            _note_lines(each, (*place, index), lines, file)
    if node.id != "mapping":
        return
    for key, each in node.value:
        line = key.start_mark.line + 1
        if (*place, key.value) in lines:
            raise CasesInvalid(f"{file}:{line}: `{key.value}` is there twice: remove one of them")
        if not isinstance(key.value, str):
            raise CasesInvalid(f"{file}:{line}: a key must be a text")
        lines[*place, key.value] = line
        _note_lines(each, (*place, key.value), lines, file)
