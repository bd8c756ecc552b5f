"""The types of hooks: an object that is asked at one point is one, with or without the base `Hook`."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from layover.declare.hooks.base import Hook


class AskedBeforeModel(Protocol):
    """An object with `before_model`."""

    @property
    def before_model(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


class AskedAfterModel(Protocol):
    """An object with `after_model`."""

    @property
    def after_model(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


class AskedWhileTextStreams(Protocol):
    """An object with `stream_text`."""

    @property
    def stream_text(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


class AskedBeforeEmbedding(Protocol):
    """An object with `before_embedding`."""

    @property
    def before_embedding(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


class AskedBeforeTool(Protocol):
    """An object with `before_tool`."""

    @property
    def before_tool(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


class AskedAfterTool(Protocol):
    """An object with `after_tool`."""

    @property
    def after_tool(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


class AskedAtEnd(Protocol):
    """An object with `at_end`."""

    @property
    def at_end(self) -> Callable[..., Any]:
        """See `Hook`."""
        ...


HookLike: TypeAlias = (
    Hook
    | AskedBeforeModel
    | AskedAfterModel
    | AskedWhileTextStreams
    | AskedBeforeEmbedding
    | AskedBeforeTool
    | AskedAfterTool
    | AskedAtEnd
)
"""A hook: what `Agent(hooks=[...])` takes."""
