"""Results of tools, as models see them."""

import json

from layover.values.message import Message, ToolResultPart


def result_text(message: Message, part: ToolResultPart) -> str:
    """Return the text that stands for a result in a prompt. `message`: the one that has the part."""
    if message.model_output is not None:
        return message.model_output
    if isinstance(part.result, str):
        return part.result
    return json.dumps(part.result, ensure_ascii=False)
