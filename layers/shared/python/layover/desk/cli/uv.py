"""uv, which chooses the versions of a lock: the command that runs it, and the indexes that it asks."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec

_SETTING = re.compile(r"^(global|install|:env:)\.([\w-]+)=(.*)$", re.M)
_WEAKEST_FIRST = ("global", "install", ":env:")
_NAMES: Mapping[str, tuple[str, str]] = {
    "index-url": ("UV_INDEX_URL", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
"""uv's variable for a setting of pip, and what stands between its values."""


def find_uv() -> list[str] | None:
    """Return the command that runs uv: this environment's, or the path's; None if there is none."""
    if find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    uv = shutil.which("uv")
    return None if uv is None else [uv]


def variables(settings: str | None = None) -> dict[str, str]:
    """Return the variables of a process of uv: this one's, and the indexes that pip asks here. uv does not
    read pip's settings, and a company's mirror is often nowhere else. A variable of uv's own wins.
    `settings`: of pip, as `pip config list` prints them; this machine's if not given."""
    of_machine = of_pip(_settings_of_pip() if settings is None else settings)
    # It does not fetch another Python: each one can lock for all.
    return {"UV_PYTHON_DOWNLOADS": "never", **of_machine, **os.environ}


def _settings_of_pip() -> str:
    """Return nothing in an environment without pip."""
    return subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    ).stdout


def of_pip(settings: str) -> dict[str, str]:
    """Return pip's settings, as `pip config list` prints them, as the variables that tell uv the same.

    Example:
        >>> of_pip("global.index-url='https://mirror.example/simple'")
        {'UV_INDEX_URL': 'https://mirror.example/simple'}
    """
    sections = {section: dict[str, str]() for section in _WEAKEST_FIRST}
    for section, name, value in _SETTING.findall(settings):
        sections[section][name] = str(ast.literal_eval(value))
    values = {name: value for each in sections.values() for name, value in each.items()}
    # Of several indexes, uv asks the first one that has a package, and pip's further ones come first: what is
    # private there is never taken from a public index.
    return {
        variable: between.join(values[name].split())
        for name, (variable, between) in _NAMES.items()
        if values.get(name)
    }
