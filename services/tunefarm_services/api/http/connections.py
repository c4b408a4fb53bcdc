"""The connections of one API process, and which of them are closed if there are too many."""

import ipaddress
from typing import Final, Protocol

RESERVE: Final = 64
"""Connections beyond the limit that may still send health checks."""


class Closable(Protocol):
    """A connection that can be asked to close."""

    def make_room(self) -> None:
        """Close the connection, which is idle."""


class Connections:
    """All connections of a process. Use it only on the event loop.

    Idle connections cost a client nothing, so they must not keep requests out: a new connection closes the anonymous
    connection that has been idle longest, first of the same address, then of all.
    """

    def __init__(self, most: int, idle_per_address: int) -> None:
        """``idle_per_address`` limits the idle connections of an address without a valid token."""
        self._most = most
        self._idle_per_address = idle_per_address
        self._network_of: dict[Closable, str] = {}
        # Dictionaries keep their order, so the first key is the one that has been idle longest.
        self._anonymous: dict[Closable, None] = {}
        self._known: dict[Closable, None] = {}
        self._anonymous_of: dict[str, dict[Closable, None]] = {}

    def __len__(self) -> int:
        return len(self._network_of)

    @property
    def is_full(self) -> bool:
        """Whether all connections up to the limit are in use."""
        return len(self._network_of) > self._most

    def opened(self, connection: Closable, address: str) -> bool:
        """Count a new connection and close an idle one for it; False if even the reserve is in use, to be closed."""
        self._network_of[connection] = network(address)
        self.rests(connection, is_known=False)
        if len(self._network_of) > self._most:
            self._close_longest_idle(self._known if next(iter(self._anonymous)) is connection else self._anonymous)
        return len(self._network_of) <= self._most + RESERVE

    def rests(self, connection: Closable, *, is_known: bool) -> None:
        """Mark a connection as waiting for its next request. ``is_known``: the last one had a valid token."""
        if connection not in self._network_of:
            return
        self.works(connection)
        if is_known:
            self._known[connection] = None
            return
        self._anonymous[connection] = None
        of_address = self._anonymous_of.setdefault(self._network_of[connection], {})
        of_address[connection] = None
        if len(of_address) > self._idle_per_address:
            self._close_longest_idle(of_address)

    def works(self, connection: Closable) -> None:
        """Mark a connection as handling a request."""
        self._anonymous.pop(connection, None)
        self._known.pop(connection, None)
        name = self._network_of.get(connection, "")
        of_address = self._anonymous_of.get(name)
        if of_address is not None:
            of_address.pop(connection, None)
            if not of_address:
                del self._anonymous_of[name]

    def closed(self, connection: Closable) -> None:
        """Remove a closed connection."""
        self.works(connection)
        self._network_of.pop(connection, None)

    def _close_longest_idle(self, idle: dict[Closable, None]) -> None:
        longest = next(iter(idle), None)
        if longest is not None:
            self.closed(longest)
            longest.make_room()


def network(address: str) -> str:
    """The part of an address that a client cannot choose: an IPv6 host has a /64, and would otherwise count as many."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
