"""Debian's Chromium, driven by Playwright."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL_S = 300


@contextmanager
def launch() -> Iterator[Browser]:
    """Yield a browser. A process has one at a time, and no other event loop meanwhile, so a fixture with it
    ends with its module. Skips the test if there is no browser and none can be installed."""
    if _path() is None:
        _install()
    path = _path()
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _path() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _install() -> None:
    """Install Debian's package, if that is possible without a prompt."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
    try:
        subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        return
