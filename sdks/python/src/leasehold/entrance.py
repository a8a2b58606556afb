"""Requests as context managers: what is acquired at the entrance is given back at the exit."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Optional, Type, TypeVar

T = TypeVar("T", bound=Any)


class AsyncEntrance(Generic[T]):
    """For `async with`."""

    _entered: Optional[T] = None

    async def _enter(self) -> T:
        raise NotImplementedError

    async def __aenter__(self) -> T:
        if self._entered is not None:
            raise RuntimeError("this request is in use already; make one for each `with`")
        self._entered = await self._enter()
        return self._entered

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            await entered.__aexit__(kind, error, trace)


class Entrance(Generic[T]):
    """For `with`."""

    _entered: Optional[T] = None

    def _enter(self) -> T:
        raise NotImplementedError

    def __enter__(self) -> T:
        if self._entered is not None:
            raise RuntimeError("this request is in use already; make one for each `with`")
        self._entered = self._enter()
        return self._entered

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.__exit__(kind, error, trace)
