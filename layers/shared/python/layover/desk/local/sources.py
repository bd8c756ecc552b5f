"""The agents' files as their author saves them: changes, and a copy of the last ones that loaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

_IGNORED = frozenset({"__pycache__", ".venv", ".git", "node_modules"})
_MAX_FILES = 2_000
"""A folder with more files hardly holds only agents: it is not followed."""

State = dict[Path, tuple[int, int]]


class Sources:
    """The files of one agents' module, which is looked up on `paths` as Python does it. `copy`: the folder
    for the last files that could be loaded."""

    def __init__(self, module: str, paths: list[Path], copy: Path) -> None:
        self._name = module.partition(".")[0]
        self._source = _place(self._name, paths)
        self._copy = copy
        self._state = self._look()

    def has_changed(self) -> bool:
        """Return whether a file was written, made or removed since the last look."""
        now = self._look()
        before, self._state = self._state, now
        return now != before

    def keep(self) -> None:
        """Copy the present files, which could be loaded."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir(parents=True)
        if self._source is None or len(self._state) > _MAX_FILES:
            return
        target = self._copy / self._source.name
        if self._source.is_dir():
            # What an editor has there for a moment, or links to nowhere, is copied as far as it can be.
            with suppress(shutil.Error):
                shutil.copytree(self._source, target, ignore=shutil.ignore_patterns(*_IGNORED))
        else:
            shutil.copy2(self._source, target)

    @property
    def copy_path(self) -> Path:
        """Return the folder from which the copy can be imported."""
        return self._copy

    def _look(self) -> State:
        state = {}
        for file in self._files():
            try:
                status = file.stat()
            except OSError:  # An editor is replacing the file: it is there at the next look.
                continue
            state[file] = (status.st_mtime_ns, status.st_size)
        return state

    def _files(self) -> Iterator[Path]:
        if self._source is None:
            return
        if not self._source.is_dir():
            yield self._source
            return
        count = 0
        for folder, folders, names in os.walk(self._source):
            folders[:] = [name for name in folders if name not in _IGNORED]
            for name in names:
                count += 1
                yield Path(folder, name)
                if count > _MAX_FILES:
                    return


def _place(name: str, paths: list[Path]) -> Path | None:
    """Return the package's folder or the module's file; None if there is neither."""
    spec = PathFinder.find_spec(name, [str(path) for path in paths])
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin) if spec.origin else None
