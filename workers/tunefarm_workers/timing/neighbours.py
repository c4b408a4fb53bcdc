"""Children that another thread uses, which are stopped while others are timed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tunefarm_sandbox.fork_server.child import Child


class Neighbours:
    """The present children. Thread-safe."""

    def __init__(self, hold: Callable[[Child], None]) -> None:
        """``hold`` stops a child that is added while others are timed."""
        self._hold = hold
        self._children: list[Child] = []

    @property
    def children(self) -> tuple[Child, ...]:
        """The present children."""
        return tuple(self._children)

    @contextmanager
    def of(self, child: Child) -> Iterator[None]:
        """Include ``child`` for the duration of the context."""
        self._children.append(child)
        self._hold(child)
        try:
            yield
        finally:
            self.leave(child)

    def leave(self, child: Child) -> None:
        """Exclude a child, so that it can be timed itself; idempotent."""
        self._children = [other for other in self._children if other is not child]
