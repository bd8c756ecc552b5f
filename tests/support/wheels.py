"""The wheel of this checkout, and an installation of it without a network."""

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path, root: Path = ROOT) -> Path:
    """Build the wheel of the sources in `root`, and return its path."""
    return Path(next(iter(WheelBuilder(str(root)).build(directory=str(folder)))))


def unpack(wheel: Path, folder: Path) -> None:
    """Install the wheel into the folder as `pip` does: programs stay executable. On PYTHONPATH it comes
    before the checkout, and its libraries are those of this environment."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        for info in archive.infolist():
            if info.external_attr >> 16 & 0o111:
                (folder / info.filename).chmod(0o755)
