"""The newest release that used a data folder, in a file of the folder."""

from contextlib import suppress
from pathlib import Path

from layover.desk.shipped import order, release

_NOTE = "release"


def read(data: Path) -> str | None:
    """Return the version; None for a folder that is not there, or that no release has written to."""
    try:
        return (data / _NOTE).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def note(data: Path) -> str | None:
    """Record this release, unless a newer one was here: then return a line that says so. A folder that cannot
    be written has other troubles, and says so itself."""
    newest, this = read(data), release()
    if newest is not None and order(newest) > order(this):
        return (
            f"warning: release {newest} has used this data, and {this} may not know what it wrote: "
            f"pip install 'layover[local]=={newest}', or begin with another folder (--data)"
        )
    with suppress(OSError):
        (data / _NOTE).write_text(f"{this}\n", "utf-8")
    return None
