"""The places of what a deployment is made of: in an installed wheel, or in the checkout."""

from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
"""The package `layover` itself, of which the layer is made."""
INSTALLED = "_shipped"
"""Folder of the package in which a wheel carries what is outside of the package in a checkout."""


@dataclass(frozen=True)
class Sources:
    """Paths of the parts. `bundled`: they are in an installed package, not in a checkout."""

    bundled: bool
    functions: Path
    """Folder with a folder for each function, with its `handler.py`."""
    definition: Path
    """The state machine, in the Amazon States Language."""
    lock: Path
    """The layer's libraries, as pip's requirements with hashes."""
    migrations: Path
    """Folder with the SQL of the schema."""
    build: Path
    """Folder for what is built and downloaded."""
    package: Path = PACKAGE

    @property
    def handlers(self) -> list[str]:
        """Return the names of the functions, in order."""
        return sorted(path.parent.name for path in self.functions.glob("*/handler.py"))


def sources(package: Path = PACKAGE) -> Sources:
    """Return the parts' places. An installed package has them in `layover/_shipped`; in a checkout they are
    next to `layers`. Raises FileNotFoundError if one is missing."""
    inside = package / INSTALLED
    bundled = inside.is_dir()
    root = package.parents[3] if len(package.parents) > 3 else package
    result = Sources(
        bundled=bundled,
        functions=(inside if bundled else root) / "functions",
        definition=(inside if bundled else root / "infra") / "run.asl.json",
        lock=(inside if bundled else root / "requirements") / "runtime.lock",
        migrations=package / "adapters" / "store" / "postgres" / "migrations",
        # A project's own folder: an installed package may be read only, and serves many projects.
        build=Path(".layover") / "build" if bundled else root / "build",
        package=package,
    )
    for path in (result.functions, result.definition, result.lock, result.migrations):
        if not path.exists():
            raise FileNotFoundError(
                f"layover is installed without {path.name} ({path} is missing): install it again with "
                "`pip install --force-reinstall layover`, or use a complete checkout"
            )
    return result
