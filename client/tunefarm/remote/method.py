"""Turns the description of a call into a method: one that blocks, and one that is awaited."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tunefarm.remote.request import Flow

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Generic[P, T]):
    """A method that carries the call out and returns its result; of classes that have a blocking ``transport``."""

    def __init__(self, describe: Callable[P, Flow[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, noun: None, owner: type[Any]) -> "Blocking[P, T]": ...

    @overload
    def __get__(self, noun: object, owner: type[Any]) -> Callable[P, T]: ...

    def __get__(self, noun: Any, owner: type[Any]) -> "Callable[P, T] | Blocking[P, T]":
        """The method, bound to ``noun``."""
        if noun is None:
            return self

        def method(*arguments: P.args, **named: P.kwargs) -> T:
            result: T = noun.transport.run(self._describe(*arguments, **named))
            return result

        method.__doc__ = self.__doc__
        return method


class Awaited(Generic[P, T]):
    """A method that carries the call out when awaited; of classes that have an awaiting ``transport``."""

    def __init__(self, describe: Callable[P, Flow[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, noun: None, owner: type[Any]) -> "Awaited[P, T]": ...

    @overload
    def __get__(self, noun: object, owner: type[Any]) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, noun: Any, owner: type[Any]) -> "Callable[P, Awaitable[T]] | Awaited[P, T]":
        """The method, bound to ``noun``."""
        if noun is None:
            return self

        def method(*arguments: P.args, **named: P.kwargs) -> Awaitable[T]:
            awaitable: Awaitable[T] = noun.transport.run(self._describe(*arguments, **named))
            return awaitable

        method.__doc__ = self.__doc__
        return method
