"""Files of a user (docs/behaviour.md#files)."""

import re

from layover.values.base import Time, Value

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types that models look at; every other one is a file."""
MAX_IMAGE = 5 * 1024 * 1024
MAX_FILE = 20 * 1024 * 1024
"""Bytes."""
MAX_NAME = 255
"""Characters."""
MIME_TYPE = (
    r"(application|audio|font|image|message|model|text|video)/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
    r"(; ?charset=[A-Za-z0-9_-]{1,40})?"
)
"""Types that a file may have; the kind may be in capitals as well."""
_FIRST_BYTES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
)
_BRANDS = {"hei": "image/heic", "hev": "image/heic", "mif": "image/heic", "avi": "image/avif"}
"""Pictures in the container of films, by the first letters of its brand."""
_SHEETS = (b"\xd0\xcf\x11\xe0", b"PK")
_TYPE = re.compile(MIME_TYPE, re.IGNORECASE | re.ASCII)


class FileFacts(Value):
    """A file's record. `thread_ids`: the threads that have it; it goes with the last of them.
    `going`: the last one is being erased, and no other gets it any more."""

    id: str
    name: str
    mime_type: str
    size: int
    created_at: Time
    thread_ids: tuple[str, ...] = ()
    going: bool = False


class FileUpload(Value):
    """A new file's upload: `PUT upload_url` with its content type, until `expires_at`."""

    id: str
    upload_url: str
    expires_at: Time


def is_mime_type(text: str) -> bool:
    """Return whether a file may have this type: any of a registered kind, with at most a `charset`."""
    return _TYPE.fullmatch(text) is not None


def type_of(data: bytes) -> str:
    """Return the type that the first bytes tell; "" for all others but pictures and PDF."""
    for prefix, mime_type in _FIRST_BYTES:
        if data.startswith(prefix):
            return mime_type
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:11].decode("latin-1"), "")
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def true_type(mime_type: str | None, data: bytes) -> str:
    """Return the type that the first bytes tell, else the given one: names and clients go by endings."""
    # Windows calls CSV a sheet.
    is_csv = mime_type == "application/vnd.ms-excel" and not data.startswith(_SHEETS)
    return type_of(data) or ("text/csv" if is_csv else mime_type or "")


def bare_type(mime_type: str) -> str:
    """Return the type without parameters, in lower case."""
    bare = mime_type.partition(";")[0].strip().lower()
    return "image/jpeg" if bare == "image/jpg" else bare


def max_bytes(mime_type: str) -> int:
    """Return the bytes that a file of this type may have."""
    return MAX_IMAGE if bare_type(mime_type) in IMAGES else MAX_FILE
