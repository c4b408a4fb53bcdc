"""Turns the description of a call into a blocking or an async method.

Both are plain functions with the signature of the description, so that ``help`` and editors show their arguments.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from tunefarm.http.request import Flow

P = ParamSpec("P")
T = TypeVar("T")


def blocking(describe: Callable[P, Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that executes the call and returns its result; for classes with a blocking ``transport``."""

    def method(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        result: T = self.transport.run(describe(*arguments, **named))
        return result

    _show_as(method, describe)
    return method


def awaited(describe: Callable[P, Flow[T]]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """A coroutine method that executes the call; for classes with an async ``transport``."""

    async def method(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        result: T = await self.transport.run(describe(*arguments, **named))
        return result

    _show_as(method, describe)
    return method


def _show_as(method: Callable[..., Any], describe: Callable[..., Flow[Any]]) -> None:
    described = inspect.signature(describe)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = describe.__name__
    method.__doc__ = describe.__doc__
    method.__signature__ = described.replace(  # type: ignore[attr-defined]
        parameters=[receiver, *described.parameters.values()],
        return_annotation=get_args(described.return_annotation)[2],
    )
