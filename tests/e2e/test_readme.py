"""README's approval, typed as it is printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.system.folders import folder

README = (Path(__file__).parents[2] / "README.md").read_text()
PRINTED = "http://127.0.0.1:8787"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sh")), reason="README's lines need sh and curl"
)


@pytest.fixture
def url() -> Iterator[str]:
    """Where `layover dev` serves, with the stand-in model."""
    with folder("readme") as data:
        kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-m", "layover.cli", "dev", "--port", "0", "--data", str(data)],
            env=kept | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            ready = next(line for line in process.stdout if line.startswith("ready "))
            yield ready.removeprefix("ready ").strip()
        finally:
            process.terminate()
            try:
                process.communicate(timeout=STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                process.stdout.close()
                raise


def test_approval_works_as_printed(url: str) -> None:
    (lines,) = re.findall(r"^```sh\n(API=.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert PRINTED in lines
    # An echo after each curl that prints, so that its answer is a line.
    script = re.sub(r"^(curl [^#\n]*).*$", r"\1; echo", lines.replace(PRINTED, url), flags=re.M)
    answers = subprocess.run(
        ["sh", "-eu", "-c", script],
        env={"PATH": os.environ["PATH"], "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
        check=True,
    ).stdout.splitlines()
    waiting, decided, over, events = (json.loads(line) for line in answers)
    assert waiting["status"] == "suspended"
    assert decided["id"] == over["id"] == waiting["id"]
    assert over["status"] == "success"
    assert "Refunded 60.00 euros" in over["text"]
    assert events["done"] is True
