"""Results of several parts: texts and files, in the order in which a model gets them. Few results have files:
this is imported for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from layover.declare.schemas.render import Parts, as_text
from layover.values.message import FilePart, TextPart, name_file, reference


def as_words(value: Any, result: Any = None) -> str:
    """Return a result as the model reads it: a string bare, texts and files as paragraphs, of which each
    file's names it, and anything else as JSON. `result`: the JSON, if it is made: an iterator in the value is
    used up then."""
    parts = _parts_of(value)
    if parts is None:
        return as_text(value if result is None else result)
    texts = [as_text(_words(part)) for part in parts]
    return "\n\n".join(text for text in texts if text.strip())


def files_in(value: Any) -> Iterator[FilePart]:
    """Yield the files in a result, wherever they are in it. What only looks like one is data: its author has
    not made a `FilePart` of it. `value`: neither contains itself nor has an iterator."""
    if isinstance(value, FilePart):
        yield value
    elif isinstance(value, Parts):
        yield from files_in((*value.parts, *value.files))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from files_in(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from files_in(each)
    elif hasattr(type(value), "__pydantic_fields__"):
        yield from files_in(vars(value))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from files_in(getattr(value, field.name, None))


def _parts_of(value: Any) -> Sequence[Any] | None:
    """Return the parts of a result; None if it is one value."""
    if isinstance(value, Parts):
        return value.parts
    if isinstance(value, FilePart):
        return (value,)
    if not isinstance(value, list | tuple) or not any(isinstance(p, FilePart) for p in value):
        return None
    return value if all(isinstance(p, str | TextPart | FilePart) for p in value) else None


def _words(part: str | TextPart | FilePart) -> str:
    if isinstance(part, FilePart):
        return name_file(part, part.mime_type, reference(part))
    return part if isinstance(part, str) else part.text
