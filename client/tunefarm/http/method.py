"""Turns the description of a call into a method that blocks or is awaited, as the transport of its object is.

Each is a plain function with the signature of the description, so that ``help`` and editors show its arguments.
"""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, get_args, overload

from tunefarm.http.async_transport import AsyncTransport
from tunefarm.http.request import Flow
from tunefarm.http.transport import Transport

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", covariant=True)
Carrier = TypeVar("Carrier", bound=Transport | AsyncTransport)


class Noun(Generic[Carrier]):
    """A resource of a service, or one item of it."""

    def __init__(self, transport: Carrier) -> None:
        self.transport = transport


class Call(Protocol[P, R]):
    """A method that executes a call and returns its result, or a coroutine if the transport is async."""

    @overload
    def __get__(self, owner: Noun[Transport], kind: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, owner: Noun[AsyncTransport], kind: type) -> Callable[P, Coroutine[Any, Any, R]]: ...


def executed(describe: Callable[Concatenate[Any, P], Flow[T]]) -> Call[P, T]:
    """A method that executes the call which ``describe``, given its object and arguments, returns."""

    def method(self: Any, /, *arguments: P.args, **named: P.kwargs) -> Any:
        return self.transport.run(describe(self, *arguments, **named))

    described = inspect.signature(describe)
    method.__name__ = describe.__name__
    method.__doc__ = describe.__doc__
    method.__signature__ = described.replace(  # type: ignore[attr-defined]
        return_annotation=get_args(described.return_annotation)[2]
    )
    return cast("Call[P, T]", method)


def call(describe: Callable[P, Flow[T]]) -> Call[P, T]:
    """A method that executes the call which ``describe`` returns."""

    def described(_noun: Any, /, *arguments: P.args, **named: P.kwargs) -> Flow[T]:
        return describe(*arguments, **named)

    signature = inspect.signature(describe)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    described.__name__ = describe.__name__
    described.__doc__ = describe.__doc__
    described.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[receiver, *signature.parameters.values()]
    )
    return executed(described)
