"""Mails about calls: subject, plain text and HTML. Every text in them comes from `words`, and has no address
of which a mail program makes a link: only ours are links."""

import re
from dataclasses import dataclass
from html import escape
from textwrap import fill

from layover.plugins.people.words import clean, cut, headline, rest
from layover.values.channels import Channels, Notice, NoticeLinks, Person

MAX_SUBJECT = 150
TEXT_WIDTH = 78
"""Characters of a line of our own words (RFC 5322, 2.1.1). Facts stay on one line, which the reader's program
folds."""
_FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
_ADDRESS = re.compile(r":(?=//)|(?<![@\w.-])(?:[\w-]+\.)+(?=[^\W\d_]{2})(?![\w.-]*@)")
"""The colon of a scheme and the dots of a host, by which a text is an address. Those of people have an @, and
stay."""
_DARK = (
    "@media (prefers-color-scheme:dark){.page{background:#14171c!important}"
    ".card{background:#1f242c!important;border-color:#343b46!important}"
    ".ink{color:#eef1f5!important}.pale{color:#a9b3c1!important}"
    ".line{border-color:#343b46!important}}"
)
"""Clients that know no style sheets show the light colours, which each element has."""


@dataclass(frozen=True)
class _Words:
    """The words of a mail, in either form."""

    head: str
    lines: list[str]
    pairs: list[tuple[str, str]]
    button: tuple[str, str]
    """The page that it opens, and its label."""
    note: str
    console: str

    @property
    def is_elsewhere(self) -> bool:
        """True if the button opens another page than the console."""
        return self.button[0] != self.console


@dataclass(frozen=True)
class Mail:
    """A mail without its addresses."""

    subject: str
    text: str
    html: str


def write_mail(
    notice: Notice, links: NoticeLinks, channels: Channels, reader: Person | None = None
) -> Mail:
    """Return the mail about a call.

    Args:
        notice: The call, as it is now.
        links: The pages to which the mail leads.
        channels: The configuration, which names people.
        reader: The one person whom the address reaches; None: several may read it.
    """
    head = _unlink(headline(notice, channels))
    lines, pairs = rest(notice, channels)
    lines, pairs = [*map(_unlink, lines)], [(name, _unlink(value)) for name, value in pairs]
    button, note = _button(notice, links), _note(notice, links, reader)
    words = _Words(head, lines, pairs, button=button, note=note, console=links.console)
    return Mail(cut(head, MAX_SUBJECT), _as_text(words), _as_html(words))


def _unlink(text: str) -> str:
    return _ADDRESS.sub(lambda part: re.sub("[:.]", r"‹\g<0>›", part[0]), text)


def _button(notice: Notice, links: NoticeLinks) -> tuple[str, str]:
    if notice.kind.is_closed:
        return links.console, "Open the console"
    if links.decide is not None:
        return links.decide, "Decide"
    return links.console, "Decide in the console"


def _note(notice: Notice, links: NoticeLinks, reader: Person | None) -> str:
    if notice.kind.is_closed:
        return ""
    if links.decide is None:
        return "The console asks you to sign in. Forwarding this mail does not move the right to decide."
    whose = "one person" if reader is None else clean(reader.mail)
    return (
        f"The link is only for {whose}, and for this request. Forwarding this mail does not move the right "
        "to decide: a decision by the link is recorded as theirs, whoever opens it. It is good until the "
        "request expires, and for 7 days at most."
    )


def _as_text(words: _Words) -> str:
    facts = "\n".join(_text_of(*pair) for pair in words.pairs)
    parts = [words.head, "\n".join(words.lines), facts]
    target, label = words.button
    parts += [f"{label}:\n{target}", fill(words.note, TEXT_WIDTH)]
    if words.is_elsewhere:
        parts.append(f"The same in the console, after a sign-in:\n{words.console}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _text_of(label: str, value: str) -> str:
    if "\n" not in value and label not in ("Arguments", "Question"):
        return f"{label}: {value}"
    return "\n".join([f"{label}:", *(f"  {line}" for line in value.splitlines())])


def _as_html(words: _Words) -> str:
    target, label = words.button
    verdict = "".join(
        f'<p class="ink" style="margin:0 0 8px;color:#1b2430" dir="auto">{escape(line)}</p>'
        for line in words.lines
    )
    rows = "".join(_row(*pair) for pair in words.pairs)
    table = (
        '<table role="presentation" cellpadding="0" cellspacing="0" width="100%" '
        f'style="border-collapse:collapse;margin:16px 0">{rows}</table>'
        if rows
        else ""
    )
    other = (
        f' <a class="pale" href="{escape(words.console)}" style="color:#5b6776">The same in the console</a>, '
        "after a sign-in."
        if words.is_elsewhere
        else ""
    )
    below = f"{escape(words.note)}{other}"
    foot = (
        f'<p class="pale" style="margin:18px 0 0;font-size:13px;color:#5b6776">{below}</p>'
        if below
        else ""
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="supported-color-schemes" content="light dark">'
        f"<title>{escape(cut(words.head, MAX_SUBJECT))}</title><style>{_DARK}</style></head>"
        f'<body class="page" style="margin:0;padding:24px 12px;background:#f3f5f8;{_FONT}">'
        '<table role="presentation" align="center" cellpadding="0" cellspacing="0" width="100%" '
        'style="max-width:560px"><tr><td class="card" style="background:#ffffff;border:1px solid '
        '#dfe4ea;border-radius:10px;padding:24px;font-size:15px;line-height:1.5">'
        '<h1 class="ink" style="margin:0 0 12px;font-size:19px;line-height:1.35;color:#1b2430;'
        f'overflow-wrap:anywhere" dir="auto">{escape(words.head)}</h1>{verdict}{table}'
        f'<a href="{escape(target)}" style="display:inline-block;background:#1f5fd0;color:#ffffff;'
        "font-weight:600;text-decoration:none;padding:11px 22px;border-radius:7px;"
        f'border:1px solid #1f5fd0">{label}</a>'
        f"{foot}</td></tr></table></body></html>"
    )


def _row(label: str, value: str) -> str:
    # Each line hangs, so that the rest of a long one cannot be read as another.
    lines = "".join(
        f'<div style="padding-left:14px;text-indent:-14px" dir="auto">{escape(line)}</div>'
        for line in value.splitlines()
    )
    line = "border-top:1px solid #e7ebf0;padding:7px 0;vertical-align:top"
    return (
        f'<tr><td class="pale line" style="{line};width:130px;padding-right:12px;color:#5b6776">'
        f'{escape(label)}</td><td class="ink line" style="{line};color:#1b2430;'
        f'overflow-wrap:anywhere;word-break:break-word">{lines}</td></tr>'
    )
