"""Gets the document of a channel: by TUF, then by the rules that TUF does not know."""

from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import ValidationError
from tuf.api.exceptions import (
    BadVersionNumberError,
    DownloadError,
    DownloadLengthMismatchError,
    ExpiredMetadataError,
    RepositoryError,
)

from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.floor import CLOCK_SLACK, read_floor, read_time, write_floor, write_time
from tunefarm_edge.trust.metadata_client import keys_of, metadata_client
from tunefarm_edge.trust.source import ReleaseSource
from tunefarm_schemas.edge.release import CHANNEL_FORMAT, ChannelDocument

DOCUMENT_BYTES: Final = 4 << 20
_FRESH_FIX: Final = "Publish the channel again, or set the device's clock."


def now_utc() -> datetime:
    """The device's clock."""
    return datetime.now(UTC)


def verified_channel(
    root: EdgeRoot, source: ReleaseSource, channel: str, max_age: timedelta | None = None
) -> ChannelDocument:
    """The document of a channel, verified, and the floor raised to it.

    Args:
        root: the device's folder, with the pinned root metadata.
        source: the repository.
        channel: its name.
        max_age: how old a document may be, whether or not it and its metadata have expired by now: for media that
            travel. None: nothing may have expired.

    Raises:
        Refused: tampered, expired, downgraded, clock_rolled_back or unreachable.
    """
    now, floor = now_utc(), read_floor(root)
    floor.require_clock(now)
    expires_after = now - (max_age or timedelta())
    content, keys = _downloaded(root, source, channel, expires_after)
    document = _parsed(content)
    if document.channel != channel:
        problem = f"the document is of the channel {document.channel}, not of {channel}."
        raise Refused("wrong_target", problem, "Publish the right document for this channel.")
    _require_fresh(document, now, max_age, expires_after)
    least = floor.sequence_under(keys)
    if document.sequence < least:
        problem = f"the channel's sequence is {document.sequence}, but {least} was seen before."
        raise Refused("downgraded", problem, "Publish a document with a higher sequence.")
    latest = max(now, read_time(floor.latest_time))
    raised = {"sequence": document.sequence, "keys": tuple(sorted(keys)), "latest_time": write_time(latest)}
    write_floor(root, floor.model_copy(update=raised))
    return document


def _downloaded(
    root: EdgeRoot, source: ReleaseSource, channel: str, expires_after: datetime
) -> tuple[bytes, frozenset[str]]:
    """The document of a channel, and the keys that may sign it."""
    try:
        # A medium that travels is judged by the time that it may have left at.
        updater = metadata_client(source, root.trust, root.staging, root.pinned_root.read_bytes(), expires_after)
        target = updater.get_targetinfo(f"channels/{channel}.json")
        if target is None:
            raise Refused(
                "wrong_target", f"there is no channel {channel}.", "Correct the channel's name, or publish it."
            )
        if target.length > DOCUMENT_BYTES:
            raise Refused("tampered", "the channel's document is too long.", "Publish a shorter one.")
        path = updater.download_target(target, str(root.staging / ".channel.json"))
    except (RepositoryError, DownloadError) as error:
        raise _refusal(error) from error
    with open(path, "rb") as file:  # noqa: PTH123 - tuf gives text
        return file.read(), keys_of(updater, target.path)


def _refusal(error: RepositoryError | DownloadError) -> Refused:
    """What went wrong, in the terms of a device."""
    cause = error.__cause__
    if isinstance(cause, Refused):
        return cause
    said = str(error).rstrip(".")[:300]
    if isinstance(error, ExpiredMetadataError):
        return Refused("expired", f"{said}.", _FRESH_FIX)
    if isinstance(error, BadVersionNumberError):
        return Refused("downgraded", f"{said}.", "Use the newest repository.")
    if isinstance(error, RepositoryError | DownloadLengthMismatchError):
        fix = "Use a repository that was signed with the keys of this device's root metadata."
        return Refused("tampered", f"{said}.", fix)
    return Refused("unreachable", f"{said}.", "Check the network, or copy the whole repository to the folder.")


def _parsed(content: bytes) -> ChannelDocument:
    try:
        document = ChannelDocument.model_validate_json(content, extra="ignore")
    except ValidationError as error:
        at = ".".join(str(part) for part in error.errors()[0]["loc"])
        problem = f"the channel's document cannot be read ({at}: {error.errors()[0]['msg']})."
        raise Refused("wrong_target", problem, "Update the agent, or publish the channel again.") from None
    if document.format > CHANNEL_FORMAT:
        problem = f"the channel's document has the format {document.format}, newer than {CHANNEL_FORMAT}."
        raise Refused("wrong_target", problem, "Update the agent.")
    return document


def _require_fresh(
    document: ChannelDocument, now: datetime, max_age: timedelta | None, expires_after: datetime
) -> None:
    issued, expires = read_time(document.issued), read_time(document.expires)
    if issued > now + CLOCK_SLACK:
        problem = f"the channel's document was issued at {document.issued}, but the clock says {write_time(now)}."
        raise Refused("clock_rolled_back", problem, "Set the clock of the device.")
    if expires <= expires_after:
        raise Refused("expired", f"the channel's document expired at {document.expires}.", _FRESH_FIX)
    if max_age is not None and issued < now - max_age:
        raise Refused(
            "expired", f"the channel's document was issued at {document.issued}, longer ago than permitted.", _FRESH_FIX
        )
