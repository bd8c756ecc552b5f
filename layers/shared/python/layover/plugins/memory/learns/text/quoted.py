"""Text in a message that its author did not write: pasted logs, mails, quotes
(docs/behaviour.md#evidence). Pure."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from layover.lazy import lazy_pattern

_MAX_BRACES = 50
_FENCE = lazy_pattern(r"```|^[ \t]*~~~", re.MULTILINE)
_SIGN = lazy_pattern(
    r"[ \t]*(?:>|\uff1e|&gt;|[A-Z]{1,3}>[ \t]|[|\u2502\u2503\u258c\u00bb\u203a][ \t])"
)
"""Signs before a quoted line: `>`, `AB>`, a bar."""
_DAY = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}[-/ ][A-Z][a-z]{2}[-/ ]\d{4}"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}\d{1,2}(?:,? \d{4})?)"
)
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|FATAL|CRIT(?:ICAL)?|SEVERE|PANIC)"
_RECORD = lazy_pattern(
    rf"[ \t]*(?:[\[(<]?{_DAY}[T ,_:]{{1,3}}\d{{1,2}}:\d{{2}}"  # a day with a time
    r"|[\[(<]?\d{1,2}:\d{2}:\d{2}|[\[(<]\d{1,2}:\d{2}[\])>]"  # a time with seconds, or in brackets
    r"|\[?\d{10}(?:\d{3})?(?:\.\d+)?[\] \t]"  # seconds since 1970
    rf"|[\[(<]{_LEVEL}[\])>]|{_LEVEL}[ \t]*[:|]|{_LEVEL}[ \t]+(?:\[|[\w$]+[.$/][\w$])"  # a level
    r"|\d{1,3}(?:\.\d{1,3}){3} \S+ \S+ \["  # a web server's line
    r"|[\w./\\-]+\.\w+:\d+(?::\d+)?:"  # a compiler's line
    r"|at \S+.*[)\d]$|File \"[^\"]+\", line \d|Traceback \(most recent|Caused by:"  # a stack
    r"|(?i:system|assistant|user|human|ai|bot|tool)[ \t]*:[ \t])"  # a speaker
)
_PAIR = lazy_pattern(r"(?<![\w.\-])[\w.\-]+=(?:\"[^\"]*\"|'[^']*'|\S*)")
_HEADER = lazy_pattern(
    r"[ \t]*\**(?P<name>From|To|Cc|Bcc|Subject|Date|Sent|Reply-To|Message-ID|Received|Von|An|Betreff|Datum"
    r"|Gesendet|De|\u00c0|Para|Objet|Asunto|Assunto|Envoy\u00e9|Enviado|Data|Da|A|Oggetto|Inviato|Van|Aan|Onderwerp"
    r"|\u53d1\u4ef6\u4eba|\u6536\u4ef6\u4eba|\u4e3b\u9898|\u5dee\u51fa\u4eba|\u5b9b\u5148|\u4ef6\u540d)"
    r"\**[ \t]*[:\uff1a]\**[ \t]*\S",
    re.IGNORECASE,
)
_OF_MAILS = lazy_pattern(
    r"(?:subject|sent|reply-to|message-id|received|betreff|gesendet|objet|asunto|assunto|envoy\u00e9|enviado"
    r"|oggetto|inviato|onderwerp|\u4e3b\u9898|\u4ef6\u540d)",
    re.IGNORECASE,
)
"""Headers that only mails have: a journey has `From` and `To`, too."""
_FORWARDED = lazy_pattern(
    r"[ \t]*(?:[-_=]{2,}[ \t]*(?:original message|forwarded message|urspr\u00fcngliche nachricht"
    r"|weitergeleitete nachricht|message d.origine|message transf\u00e9r\u00e9|mensaje (?:original|reenviado)"
    r"|mensagem (?:original|encaminhada)|messaggio (?:originale|inoltrato))\b"
    r"|begin forwarded message:"
    r"|(?:on|am|le|el|il|em|op)\b.{5,120}\b(?:wrote|schrieb.{0,60}|a \u00e9crit|escribi\u00f3|escreveu"
    r"|ha scritto|schreef.{0,60})[ \t]*:[ \t]*$)",
    re.IGNORECASE,
)
_WRAPPED = lazy_pattern(
    '^[ \t]*(?:"[^"]{20,}"|[\u201c\u201e][^\u201c\u201d\u201e]{20,}[\u201c\u201d]'
    "|\u00ab[^\u00ab\u00bb]{20,}\u00bb|\u00bb[^\u00ab\u00bb]{20,}\u00ab|\u300c[^\u300c\u300d]{12,}\u300d)"
    "[.,;]?[ \t]*$",
    re.MULTILINE,
)
"""Lines that are one quotation, from mark to mark."""


class Piece(NamedTuple):
    """A piece of a text. `quoted`: its author did not write it."""

    text: str
    quoted: bool


def pieces(text: str) -> list[Piece]:
    """Return a text in pieces, those that its author wrote and those that are quoted or pasted. Blank pieces
    are left out. Where it is not clear, a piece counts as quoted."""
    marks = bytearray(len(text))
    for start, end in _spans(text):
        marks[start:end] = b"\x01" * (end - start)
    result: list[Piece] = []
    for quoted, places in groupby(range(len(text)), key=marks.__getitem__):
        run = list(places)
        piece = text[run[0] : run[-1] + 1]
        if piece.strip():
            result.append(Piece(piece, bool(quoted)))
    return result


def _spans(text: str) -> Iterator[tuple[int, int]]:
    yield from _fenced(text)
    yield from (match.span() for match in _WRAPPED.finditer(text))
    yield from _lines(text)
    yield from _objects(text)


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    marks = [match.span() for match in _FENCE.finditer(text)]
    for place in range(0, len(marks), 2):
        end = marks[place + 1][1] if place + 1 < len(marks) else len(text)
        yield marks[place][0], end


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Yield objects of JSON, wherever they stand."""
    decoder, end = json.JSONDecoder(), 0
    for tries, brace in enumerate(re.finditer(r"\{", text)):
        if tries >= _MAX_BRACES:
            return
        if brace.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        if value:
            yield brace.start(), end


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield quoted lines. From the head of a mail on, all of it is quoted."""
    starts = [0, *(match.end() for match in re.finditer(r"\n", text))]
    ends = [*(start - 1 for start in starts[1:]), len(text)]
    lines = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    records = [_is_record(line) for line in lines]
    for place, line in enumerate(lines):
        if _begins_mail(lines, place):
            yield starts[place], len(text)
            return
        # A record may have several lines, of which the others are indented.
        goes_on = place > 0 and records[place - 1] and line[:1] in (" ", "\t") and line.strip()
        records[place] = records[place] or bool(goes_on)
        if records[place] or _SIGN.match(line) or _is_within(lines, records, place):
            yield starts[place], ends[place] + 1


def _is_record(line: str) -> bool:
    """Return whether a line looks like one of a log or of a file of settings."""
    if _RECORD.match(line):
        return True
    words = line.split()
    rest = _PAIR.sub("", line).split()
    return "=" in line and len(words) - len(rest) >= max(len(rest), 1)


def _is_within(lines: list[str], records: list[bool], place: int) -> bool:
    """Return whether a line stands between records: a record may have several lines."""
    return _meets_record(lines, records, place, -1) and _meets_record(lines, records, place, 1)


def _meets_record(lines: list[str], records: list[bool], place: int, step: int) -> bool:
    for _ in range(_MAX_BRACES):
        place += step
        if not 0 <= place < len(lines) or not lines[place].strip():
            return False
        if records[place]:
            return True
    return False


def _begins_mail(lines: list[str], place: int) -> bool:
    line = lines[place]
    if _FORWARDED.match(line):
        below = next((each for each in lines[place + 1 :] if each.strip()), "")
        return not _SIGN.match(below)
    head: list[str] = []
    for each in lines[place : place + 8]:
        match = _HEADER.match(each)
        if match is None:
            break
        head.append("@" if "@" in each else match["name"])
    if head[:1] == ["@"] and len(head) == 1:
        return True
    return len(head) > 1 and any(name == "@" or _OF_MAILS.fullmatch(name) for name in head)
