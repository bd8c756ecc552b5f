"""A prompt that changes says so: stored rows name the version that made them."""

from hashlib import sha256
from importlib.resources import files

import pytest

from layover.plugins.memory.condenses import observer, reflector, summary
from layover.plugins.memory.learns import rules

# A failure here means: the prompt file was edited. Give its PROMPT_VERSION the next number and put the
# file's new digest here.
DIGESTS = {
    "extractor-9": "d63da699de99fac3",
    "observer-2": "18a9a560c59e0f76",
    "reflector-2": "0064230517bb7e22",
    "summary-1": "92c525ea19c48a39",
}


@pytest.mark.parametrize(
    "version", [m.PROMPT_VERSION for m in (rules, observer, reflector, summary)]
)
def test_a_changed_prompt_has_a_new_version(version: str) -> None:
    name = version.rsplit("-", 1)[0]
    folder = files("layover.plugins.memory").joinpath("prompts")
    parts = [folder.joinpath(f"{part}.md") for part in (name, f"{name}_known")]
    text = b"".join(part.read_bytes() for part in parts if part.is_file())
    assert sha256(text).hexdigest()[:16] == DIGESTS[version]
