"""Results of tools, as models see them: a text, and files where the text names them
(docs/behaviour.md#files-of-results)."""

import json
from collections.abc import Iterable, Mapping

from layover.values.message import (
    FilePart,
    Message,
    Role,
    TextPart,
    ToolResultPart,
    named,
    reference,
)

BEHIND = "[Files of the result of {tool}, in the order of its text. No user sent them.]"
"""The text before files of a result that a wire, or a model, takes only from a user."""


def result_text(message: Message, part: ToolResultPart) -> str:
    """Return the text that stands for a result in a prompt. `message`: the one that has the part."""
    if message.model_output is not None:
        return message.model_output
    if isinstance(part.result, str):
        return part.result
    return json.dumps(part.result, ensure_ascii=False)


def mentioned(files: Iterable[FilePart], text: str) -> tuple[FilePart, ...]:
    """Return the files that a result shows: each one that its text names by its id or address, once. What
    shortens or replaces the text takes the files with it."""
    by_reference = {reference(file): file for file in files}
    return tuple(file for name, file in by_reference.items() if name and name in text)


def shown_files(message: Message) -> tuple[FilePart, ...]:
    """Return the files that a model is shown with a message: a user's, or those of a result."""
    content = message.content
    if message.role is Role.USER:
        return tuple([part for part in content if isinstance(part, FilePart)])
    if message.role is not Role.TOOL or len(content) < 2:
        return ()
    files = [part for part in content if isinstance(part, FilePart)]
    return mentioned(files, _text_of(message))


def result_parts(message: Message) -> list[TextPart | FilePart]:
    """Return a result with files as parts, in their order. Files without an address were not loaded: the text
    names them."""
    text = _text_of(message)
    files = [(_place(text, file), file) for file in shown_files(message) if file.url]
    parts: list[TextPart | FilePart] = []
    start = 0
    for place, file in sorted(files, key=lambda each: each[0]):
        parts += [*_texts(text[start:place]), file]
        start = place
    return [*parts, *_texts(text[start:])]


def with_notes(message: Message, notes: Mapping[str, str]) -> Message:
    """Return a message with notes in place of these files; of a result's, where its text names them.
    `notes`: by the files' references."""
    if message.role is not Role.TOOL:
        return message.with_content(
            tuple(
                TextPart(text=notes[reference(part)])
                if isinstance(part, FilePart) and reference(part) in notes
                else part
                for part in message.content
            )
        )
    text, files = _text_of(message), shown_files(message)
    for file in files:
        if reference(file) in notes:
            place = _place(text, file)
            text = f"{text[:place]}\n{notes[reference(file)]}{text[place:]}"
    content = tuple(
        part
        for part in message.content
        if not isinstance(part, FilePart) or reference(part) not in notes
    )
    return message.with_content(content, model_output=text)


def without_files(message: Message, why: str) -> Message:
    """Return a tool's message that names its files only, and says why."""
    files = shown_files(message)
    if not files:
        return message
    return with_notes(message, {reference(file): named(file, why) for file in files})


def _text_of(message: Message) -> str:
    results = (part for part in message.content if isinstance(part, ToolResultPart))
    return next((result_text(message, part) for part in results), message.model_output or "")


def _place(text: str, file: FilePart) -> int:
    """Return the place of a file in a result: behind the line that names it, else behind the text."""
    ending = f", {reference(file)}]"
    place = text.find(ending)
    return len(text) if place < 0 else place + len(ending)


def _texts(text: str) -> list[TextPart]:
    text = text.strip("\n")
    return [TextPart(text=text)] if text.strip() else []
