"""Children that another thread works with, which are held still while somebody else is timed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tunefarm_sandbox.fork_server.child import Child


class Neighbours:
    """May be used from several threads."""

    def __init__(self, hold: Callable[[Child], None]) -> None:
        """``hold`` holds a child still that came while somebody is timed."""
        self._hold = hold
        self._children: list[Child] = []

    @property
    def children(self) -> tuple[Child, ...]:
        """Those that are here now."""
        return tuple(self._children)

    @contextmanager
    def of(self, child: Child) -> Iterator[None]:
        """Have ``child`` in company for a while."""
        self._children.append(child)
        self._hold(child)
        try:
            yield
        finally:
            self.leave(child)

    def leave(self, child: Child) -> None:
        """Let a child be timed itself; harmless when it is not here."""
        self._children = [other for other in self._children if other is not child]
