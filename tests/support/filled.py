"""Values whose every field holds something that is not its default, made from their types.

A test sends such a value through a place that stores or shows it, and asks `lost` which fields did not come
back. A field of a type that this file does not know raises `UnknownType`: no new field is passed over."""

import itertools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

M = TypeVar("M", bound=BaseModel)
_START = datetime(2026, 3, 1, 10, 20, 30, tzinfo=UTC)
_ABSENT = "(absent)"


class UnknownType(TypeError):
    """A field has a type that nothing here can fill: add the type."""


def filled(kind: type[M], first: int = 1, /, **given: Any) -> M:
    """Return a value of this type with something in every field. All texts, numbers and times differ, so a
    test also sees two fields that changed places.

    Args:
        kind: A model.
        first: The number that its texts and numbers count from. A value that counts from 1,000 on differs in
            them from one that counts from 1.
        **given: Fields that are to have this value.

    Raises UnknownType for a field of an unknown type, and ValueError for one that stayed at its default.

    ```python
    head = filled(ThreadHead, owner="ann")
    assert head.title == "title 4"
    ```
    """
    return _Filler(itertools.count(first)).model(kind, given)


def lost(before: Any, after: Any, path: str = "") -> set[str]:
    """Return the paths of the fields of `before` that differ in `after`, a value of the same type or another:
    `title`, `message.token_count`, `votes.0.reason`. Fields that JSON leaves out count as well."""
    mine, theirs = _parts(before), _parts(after)
    if not mine or not theirs:
        return set() if before == after else {path}
    prefix = f"{path}." if path else ""
    return {
        each
        for name, value in mine.items()
        for each in lost(value, theirs.get(name, _ABSENT), prefix + name)
    }


def not_shown(value: BaseModel, document: Mapping[str, Any]) -> set[str]:
    """Return the names in the JSON of a value that a JSON object does not have, or has with another value."""
    fields = value.model_dump(mode="json")
    return {name for name, each in fields.items() if document.get(name, _ABSENT) != each}


def _parts(value: Any) -> dict[str, Any]:
    """Return a model's fields by name, a row's models by place; {} for everything that is compared whole."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, tuple | list) and any(isinstance(each, BaseModel) for each in value):
        return {str(n): each for n, each in enumerate(value)}
    return {}


@dataclass
class _Filler:
    """Makes values that differ from each other."""

    numbers: Iterator[int]
    within: list[type] = field(default_factory=list)
    """The models that are being filled, the outermost first."""

    def model(self, kind: type[M], given: Mapping[str, Any]) -> M:
        kind.model_rebuild()  # Until then, a type that was named before it existed is a text.
        if unknown := given.keys() - kind.model_fields.keys():
            raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        values = dict(given)
        self.within.append(kind)
        for name, info in kind.model_fields.items():
            if name not in given:
                default = info.get_default(call_default_factory=True)
                values[name] = self._field(f"{kind.__name__}.{name}", info.annotation, default)
        self.within.pop()
        names = {name: info.alias or name for name, info in kind.model_fields.items()}
        return kind.model_validate({names[name]: value for name, value in values.items()})

    def _field(self, where: str, kind: Any, default: Any) -> Any:
        value = self.value(where, kind, default)
        has_one_value = get_origin(kind) is Literal and len(get_args(kind)) == 1
        nests = any(part in self.within for part in get_args(kind))
        if value == default and not (has_one_value or nests):
            raise ValueError(f"{where} is at its default")
        return value

    def value(self, where: str, kind: Any, default: Any = PydanticUndefined) -> Any:
        """Return a value of this type that is not the default."""
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.value(where, args[0], default)
        if origin in (Union, types.UnionType):
            return self.value(where, next(a for a in args if a is not type(None)), default)
        if origin is Literal:
            return next((a for a in args if a != default), args[0])
        if origin in (tuple, list, frozenset):
            return origin(self._elements(where, args))
        if origin in (dict, Mapping):
            return {self.value(where, args[0]): self.value(where, args[1])}
        return self._plain(where, kind, default)

    def _elements(self, where: str, args: tuple[Any, ...]) -> list[Any]:
        """Return two elements, or one of each member of a union of models. None of a model within itself."""
        if len(args) == 2 and args[1] is not Ellipsis:
            return [self.value(where, each) for each in args]
        kind = args[0]
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind, kind)
        return [] if kind in self.within else [self.value(where, each) for each in kinds]

    def _plain(self, where: str, kind: Any, default: Any) -> Any:
        n, name = next(self.numbers), where.rpartition(".")[2]
        if kind is bool:
            return default is not True
        made: dict[Any, Any] = {
            Any: {name: [n, n / 1024, None, {"deep": f"JSON {n}"}]},
            str: f"{name} {n}",
            int: n,
            float: n / 1024,
            Decimal: Decimal(n) / 1000,
            datetime: _START + timedelta(hours=n, microseconds=n),
            date: _START.date() + timedelta(days=n),
            timedelta: timedelta(seconds=n),
        }
        if kind in made:
            return made[kind]
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self.model(kind, {})
        if isinstance(kind, type) and issubclass(kind, Enum):
            return next(member for member in kind if member != default)
        raise UnknownType(f"{where}: nothing is known of the type {kind}")
