"""How long each role's metadata is valid."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from tunefarm_schemas.bad_input import BadInput

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time, with its zone."""
_LIFETIME: Final = re.compile(r"(\d{1,5})([mhd])")
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@dataclass(frozen=True)
class Lifetimes:
    """From signing to expiry. The shorter the timestamp's, the sooner devices notice that updates are withheld."""

    root: timedelta = timedelta(days=365)
    targets: timedelta = timedelta(days=365)
    channel: timedelta = timedelta(days=90)
    snapshot: timedelta = timedelta(days=14)
    timestamp: timedelta = timedelta(days=2)

    def of_role(self, role: str) -> timedelta:
        """The lifetime of a role's metadata; ``channel-NAME`` has that of channels."""
        found = self.channel if role.startswith("channel-") else getattr(self, role)
        assert isinstance(found, timedelta)
        return found


def system_clock() -> datetime:
    """The current time in UTC, without microseconds, as metadata holds it."""
    return datetime.now(UTC).replace(microsecond=0)


def lifetime_of(field: str, text: str) -> timedelta:
    """Parse ``90d``, ``12h`` or ``30m``. Raises BadInput for ``field``."""
    match = _LIFETIME.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise BadInput(field, f"{text[:50]!r} is not a duration.", "Write days, hours or minutes: 90d, 12h, 30m.")
    return int(match[1]) * _UNITS[match[2]]
