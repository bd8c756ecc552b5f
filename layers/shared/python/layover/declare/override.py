"""An agent with another model for a while: `with shop.override(model=...):`."""

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Protocol, TypeVar, runtime_checkable

M = TypeVar("M")


@runtime_checkable
class Verifiable(Protocol):
    """A model that can check whether it was used as expected."""

    def verify(self) -> None:
        """Raise the error that the test has to fail with."""
        ...


class Override(Generic[M]):
    """The context manager that `Agent.override` returns. `replace` takes effect and returns the function that
    undoes it."""

    def __init__(self, model: M, replace: Callable[[], Callable[[], None]]) -> None:
        # No decorator: on an async test it would end before the test begins.
        self._model = model
        self._replace = replace
        self._undoing: list[Callable[[], None]] = []

    def __enter__(self) -> M:
        self._undoing.append(self._replace())
        return self._model

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._undoing.pop()()
        if not isinstance(self._model, Verifiable):
            return
        try:
            self._model.verify()
        except Exception as error:
            if failure is None or isinstance(failure, Exception):
                raise error from failure
            # pytest's own outcomes, a cancellation, Ctrl-C: they are raised unchanged.
            failure.add_note(f"{type(error).__name__}: {error}")
