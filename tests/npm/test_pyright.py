"""Authors' code under pyright, which reads types in other ways than mypy."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from npm.conftest import LIMIT_S

SAMPLE = Path(__file__).parents[1] / "unit" / "declare" / "test_types.py"
SETTINGS = {
    "include": ["sample.py"],
    "strict": ["sample.py"],
    "pythonVersion": "3.11",
    "reportUnnecessaryTypeIgnoreComment": "error",
    "venvPath": str(Path(sys.prefix).parent),
    "venv": Path(sys.prefix).name,
}
"""Each `ignore` of the sample is an error that pyright has to find."""


def problems(packages: Path, folder: Path) -> list[tuple[int, str]]:
    """Return the line and the text of each thing that pyright finds in the folder's sample."""
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
    command = [str(packages / "node_modules/.bin/pyright"), "--outputjson", "-p", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = json.loads(run.stdout)["generalDiagnostics"]
    return [(each["range"]["start"]["line"] + 1, each["message"]) for each in found]


def test_strict_pyright_finds_nothing_in_the_sample(packages: Path, tmp_path: Path) -> None:
    shutil.copyfile(SAMPLE, tmp_path / "sample.py")
    assert problems(packages, tmp_path) == []


def test_pyright_finds_an_ignore_that_nothing_needs(packages: Path, tmp_path: Path) -> None:
    lines = SAMPLE.read_text().replace("result.output.prize", "result.output.price")
    (tmp_path / "sample.py").write_text(lines)
    [(_, message)] = problems(packages, tmp_path)
    assert "Unnecessary" in message
