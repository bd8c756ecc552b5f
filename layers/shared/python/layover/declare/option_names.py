"""Names of options: an unknown one is a DefinitionError that says where it is and which one is nearest."""

from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, TypeVar, cast

from layover.errors import DefinitionError, unknown_name

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def unknown_options(
    owner: str, names: Iterable[str], choices: Collection[str], kind: str = "option"
) -> DefinitionError:
    """Return the error to raise for options that `owner` does not have."""
    problems = (unknown_name(kind, name, choices) for name in sorted(names, key=str))
    return DefinitionError(f"{owner}: {'; '.join(problems)}")


def named_options(owner: Callable[..., str]) -> Callable[[F], F]:
    """Decorate a function so that unknown options are a DefinitionError instead of Python's TypeError, which
    names no neighbour before 3.13, and no agent. `owner`: a function of the same arguments that says whose
    options they are."""

    def decorate(function: F) -> F:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        choices = frozenset(names) - {"self"}

        @wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            if unknown := options.keys() - choices:
                raise unknown_options(owner(*args, **options), unknown, choices)
            return function(*args, **options)

        return cast("F", checked)

    return decorate


def with_named_options(cls: type[T]) -> type[T]:
    """Decorate a class so that it refuses unknown options as `named_options` does, by the class's name."""
    check = named_options(lambda self, *_, **__: type(self).__name__)
    cls.__init__ = check(cls.__init__)  # type: ignore[method-assign]
    return cls
