"""The reader of tools' secrets. It belongs to the process, because tools have secrets before any run does."""

from collections.abc import Callable, Collection

from layover.errors import ConfigurationError

Read = Callable[[str], str]
"""Returns the value at a place of AWS: a parameter's name, or the ARN of a secret. Blocks. Raises
ConfigurationError if there is none, RetryableError if AWS does not answer."""


def _read_nowhere(place: str) -> str:
    raise ConfigurationError(f"{place} cannot be read here: only functions on AWS read it")


_read: Read = _read_nowhere
_names: Callable[[], Collection[str]] = tuple


def read_by(read: Read, names: Callable[[], Collection[str]]) -> None:
    """Have the values of this process read by a function. `names`: returns those of the secrets whose
    variables say where AWS has them."""
    global _read, _names
    _read, _names = read, names


def is_on_aws(name: str) -> bool:
    """Return whether the variable of a secret says where its value is; else it has the value."""
    return name in _names()


def read(place: str) -> str:
    """Return the value at a place. Raises as `Read` does."""
    return _read(place)
