"""The first minutes with a project of one's own, in a fresh environment outside of the checkout.

`python tests/benchmarks/first_minutes.py [PYTHON ...]` prints, for each interpreter, the seconds of every
command from the environment to the first approved run and a changed tool, the CPU of all of them, and the
sizes of wheel and environment. Packages are fetched before, and not measured. Without arguments it takes
its own interpreter."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "layers/shared/python")]

from layover.desk.cli.client import Api
from support.own_project import INSTALL_S, Environment, Serving, approved, asked_refund
from support.system.folders import folder
from support.wheels import build_wheel


class Minutes:
    """The time of each step, printed when it is over."""

    total_s = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the block."""
        began = time.monotonic()
        yield
        self.say(name, began)

    def say(self, name: str, began: float) -> None:
        """Print what a step took that began then."""
        took = time.monotonic() - began
        self.total_s += took
        print(f"  {name:<40}{took:6.1f} s", flush=True)


def size_mb(place: Path) -> float:
    """The size of a file, or of all files in a folder, in MB."""
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(f.stat().st_size for f in files if f.is_file() and not f.is_symlink()) / 1e6


def cpu_s() -> float:
    """The CPU seconds of all processes that this one has waited for."""
    used = os.times()
    return used.children_user + used.children_system


def measure(python: str, wheel: Path, place: Path) -> None:
    """Take the steps with this interpreter, and print what each took."""
    fetched = place / "fetched"
    download = [python, "-m", "pip", "download", "-q", "-d", str(fetched), f"{wheel}[local]"]
    subprocess.run(download, check=True, timeout=INSTALL_S, stderr=subprocess.DEVNULL)
    before, minutes, project = cpu_s(), Minutes(), place / "shop"
    with minutes.step("python3 -m venv .venv"):
        environment = Environment(place, python, wheel)
    with minutes.step("pip install 'layover[local]'"):
        environment.install("local", options=("--no-index", "--find-links", str(fetched)))
    installed_mb = size_mb(place / ".venv")
    with minutes.step("layover init shop"):
        environment.run(place, "init", "shop")
    with minutes.step("layover test"):
        environment.run(project, "test")
    began = time.monotonic()
    with Serving(environment, project, place / "log") as serving:
        api = Api(serving.told(r"^ready (\S+)$"), "dev:ada")
        minutes.say("layover dev, until it is ready", began)
        with minutes.step("a refund asked for, approved, and over"):
            approved(api, *asked_refund(api, 60))
        agents = project / "agents" / "__init__.py"
        with minutes.step("the tool changed, and its new words seen"):
            agents.write_text(agents.read_text().replace("Refunded {amount", "Paid back {amount"))
            serving.told(r"(reloaded support)")
            assert "Paid back" in approved(api, *asked_refund(api, 20))
    print(f"  {'together':<40}{minutes.total_s:6.1f} s, {cpu_s() - before:.1f} s of CPU")
    print(f"  the environment: {installed_mb:.0f} MB", flush=True)


def main() -> None:
    """Measure each interpreter that is named."""
    with folder("wheel") as built:
        wheel = build_wheel(built)
        print(f"the wheel: {size_mb(wheel):.1f} MB")
        for python in sys.argv[1:] or [sys.executable]:
            version = subprocess.check_output([python, "--version"], text=True).strip()
            print(f"{version}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
            with folder("first") as place:
                measure(python, wheel, place)


if __name__ == "__main__":
    main()
