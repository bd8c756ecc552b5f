"""Results of tools, as models see them: a text, and files where the text names them
(docs/behaviour.md#files-of-results)."""

import json
from collections.abc import Iterable

from layover.values.message import FilePart, Message, Role, ToolResultPart, reference


def result_text(message: Message, part: ToolResultPart) -> str:
    """Return the text that stands for a result in a prompt. `message`: the one that has the part."""
    if message.model_output is not None:
        return message.model_output
    if isinstance(part.result, str):
        return part.result
    return json.dumps(part.result, ensure_ascii=False)


def files_in_text(files: Iterable[FilePart], text: str) -> tuple[FilePart, ...]:
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
    return files_in_text(files, text_of(message))


def text_of(message: Message) -> str:
    """Return the text of a tool's message."""
    results = (part for part in message.content if isinstance(part, ToolResultPart))
    return next((result_text(message, part) for part in results), message.model_output or "")
