"""The names of functions on one machine, as on Lambda: `functions.NAME.handler`."""

import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

PACKAGE = "functions"
_LOADERS = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES))


def handler_of(function: str) -> str:
    """Return Lambda's handler string: package, folder, file, function."""
    return f"{PACKAGE}.{function}.handler.handler"


def install_package(folder: Path) -> None:
    """Make `folder` the package `functions` of this process.

    The folder may be on `sys.path`, because users' packages are there next to the functions (`user_agents`).
    The functions' own folders are not importable by their bare names: a user's package `api` is found
    wherever it is."""
    spec = ModuleSpec(PACKAGE, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[PACKAGE] = module_from_spec(spec)
    functions = {path.parent.name for path in folder.glob("*/handler.py")}

    class UserPackages(FileFinder):
        """Finds modules in the folder; also those of `functions`, under their full names."""

        def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
            return None if fullname in functions else super().find_spec(fullname, target)

    def finder(entry: str) -> UserPackages:
        if not _is_same(entry, folder):
            raise ImportError("another folder", path=entry)
        return UserPackages(entry, *_LOADERS)

    sys.path_hooks.insert(0, finder)
    for entry in [each for each in sys.path_importer_cache if _is_same(each, folder)]:
        del sys.path_importer_cache[entry]


def _is_same(entry: str, folder: Path) -> bool:
    return os.path.realpath(entry) == os.path.realpath(folder)
