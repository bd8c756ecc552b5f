"""The tests' names for `functions`, those of Lambda: `functions.turn.handler`, `user_agents`."""

from pathlib import Path

from layover.desk.local.functions.package import install_package

install_package(Path(__file__).parent / "functions")
