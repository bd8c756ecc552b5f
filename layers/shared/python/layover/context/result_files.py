"""Files of results in prompts. Few results have some: this is imported for them."""

from collections.abc import Mapping

from layover.context.results import shown_files, text_of
from layover.values.message import FilePart, Message, Role, TextPart, name_file, reference

BEHIND = "[Files of the result of {tool}, in the order of its text. No user sent them.]"
"""The text before files of a result that a wire, or a model, takes only from a user."""


def result_parts(message: Message) -> list[TextPart | FilePart]:
    """Return a result with files as parts, in their order. Files without an address were not loaded: the text
    names them."""
    text = text_of(message)
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
    text, files = text_of(message), shown_files(message)
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
    return with_notes(message, {reference(file): name_file(file, why) for file in files})


def _place(text: str, file: FilePart) -> int:
    """Return the place of a file in a result: behind the line that names it, else behind the text."""
    ending = f", {reference(file)}]"
    place = text.find(ending)
    return len(text) if place < 0 else place + len(ending)


def _texts(text: str) -> list[TextPart]:
    text = text.strip("\n")
    return [TextPart(text=text)] if text.strip() else []
