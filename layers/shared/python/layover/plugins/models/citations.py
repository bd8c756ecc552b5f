"""The sources that a model cites in its text (docs/behaviour.md#citations)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from layover.plugins.models.opaque import load_stored
from layover.values.message import DataPart
from layover.values.prompt import CITATIONS

_FIELDS = ("url", "title", "start_index", "end_index")


def sources_in(annotations: object) -> list[dict[str, Any]]:
    """Return the sources in a text's annotations: `url`, `title`, `start_index` and `end_index` of each, as
    far as they are told. The Responses API has them in the annotation, Chat Completions in an object in it.
    What a source says is left out: it is long, and the model has read it."""
    sources = []
    for each in annotations if isinstance(annotations, list) else ():
        if not isinstance(each, Mapping) or each.get("type") != "url_citation":
            continue
        holder = each.get("url_citation", each)
        if isinstance(holder, Mapping) and isinstance(holder.get("url"), str):
            sources.append({name: holder.get(name) for name in _FIELDS})
    return sources


def citations(sources: Sequence[Mapping[str, Any]]) -> Iterable[DataPart]:
    """Return the part of a message that tells them; nothing if there are none."""
    return (DataPart(name=CITATIONS, data=load_stored(list(sources))),) if sources else ()
