"""The texts of memory's prompts."""

from functools import cache
from importlib.resources import files


@cache
def prompt_file(name: str) -> str:
    """Return the text of a file of `prompts`."""
    return files("layover.plugins.memory").joinpath(f"prompts/{name}.md").read_text("utf-8")
