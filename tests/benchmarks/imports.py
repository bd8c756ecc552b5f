"""The imports of a cold start.

`python tests/benchmarks/imports.py` prints, for each handler, the time that its import takes in a
new process (the best of five), the number of modules, and which heavy ones are among them: there should be
none."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMES = 5
HEAVY = ("openai", "numpy", "psycopg", "boto3", "jsonschema")
_IMPORT = """
import json, sys, time
before = len(sys.modules)
began = time.perf_counter()
import functions.{name}.handler
took = time.perf_counter() - began
print(json.dumps([took, len(sys.modules) - before, [m for m in {heavy!r} if m in sys.modules]]))
"""


def imported(name: str) -> tuple[float, int, list[str]]:
    """Seconds, modules, and the heavy ones among them."""
    path = os.pathsep.join(str(ROOT / p) for p in ("layers/shared/python", "."))
    found = subprocess.run(
        [sys.executable, "-c", _IMPORT.format(name=name, heavy=HEAVY)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        timeout=60,
    )
    took, modules, heavy = json.loads(found.stdout)
    return took, modules, heavy


def main() -> None:
    """Print a line for each function."""
    print("import of a handler in a new process", flush=True)
    for folder in sorted((ROOT / "functions").glob("*/handler.py")):
        name = folder.parent.name
        took, modules, heavy = min(imported(name) for _ in range(TIMES))
        said = ", ".join(heavy) or "nothing heavy"
        print(f"{name:>9}: {took * 1000:5.0f} ms, {modules} modules, {said}", flush=True)


if __name__ == "__main__":
    main()
