"""What a device never goes below: the sequence of its channel and the time, and releases that failed here."""

from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import Field, ValidationError

from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_schemas.edge.release import Name
from tunefarm_schemas.edge.report import EdgeFailure
from tunefarm_schemas.frozen import Frozen

CLOCK_SLACK: Final = timedelta(minutes=5)
"""By how much clocks are set back in ordinary operation."""
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


class FailedRelease(Frozen):
    """A release that does not work here, or whose updates do not end. Not tried again at this sequence."""

    release: Name
    sequence: int
    failure: EdgeFailure
    detail: str = ""


class Floor(Frozen):
    """Kept for ever, and only raised while the channel keeps one of its keys.

    Attributes:
        sequence: the highest of a verified channel document that one of ``keys`` may have signed.
        keys: ids of the keys of the channel at that time.
        latest_time: the latest at which metadata were verified.
        failed: the release that failed last.
        interrupted: how often in a row an update was interrupted while its release was tried.
        interrupted_folder: the folder of that release.
    """

    sequence: int = Field(default=0, ge=0)
    keys: tuple[str, ...] = ()
    latest_time: str = "1970-01-01T00:00:00Z"
    failed: FailedRelease | None = None
    interrupted: int = Field(default=0, ge=0)
    interrupted_folder: str = ""

    def require_clock(self, now: datetime) -> None:
        """Require that the clock was not set back.

        Raises:
            Refused: the clock is earlier than metadata were verified before.
        """
        latest = read_time(self.latest_time)
        if now < latest - CLOCK_SLACK:
            problem = f"the clock says {write_time(now)}, but it was {self.latest_time} before."
            raise Refused("clock_rolled_back", problem, "Set the clock of the device.")

    def sequence_under(self, keys: frozenset[str]) -> int:
        """The lowest sequence to accept from a channel with these keys.

        A thief of a key may have signed any sequence. Once all keys of the channel are replaced, nothing that the old
        ones signed verifies, so the channel begins again.
        """
        return 0 if self.keys and keys.isdisjoint(self.keys) else self.sequence

    def failure_of(self, release: str, sequence: int) -> FailedRelease | None:
        """Why a release is not tried at this sequence, if it failed at it."""
        failed = self.failed
        return failed if failed and (failed.release, failed.sequence) == (release, sequence) else None


def read_floor(root: EdgeRoot) -> Floor:
    """The floor of a device; that of a new device if there is none.

    Raises:
        Refused: the file is damaged. Starting from zero would admit old releases.
    """
    try:
        return Floor.model_validate_json(root.floor.read_bytes())
    except FileNotFoundError:
        return Floor()
    except ValidationError as error:
        problem = f"{root.floor} cannot be read ({error.errors()[0]['msg']})."
        raise Refused("tampered", problem, "Enrol the device again in a new folder.") from None


def write_floor(root: EdgeRoot, floor: Floor) -> None:
    """Write the floor, unless it says so already."""
    if read_floor(root) != floor:
        # Without defaults, so that earlier agents can read it while no release was interrupted.
        root.disk.replace_file(root.floor, floor.model_dump_json(exclude_defaults=True).encode(), 0o600)


def read_time(text: str) -> datetime:
    """A time as documents write it."""
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


def write_time(time: datetime) -> str:
    """A time as documents write it, without fractions of seconds."""
    return time.astimezone(UTC).strftime(TIME_FORMAT)
