"""The form of a channel document for small runners: lines of text, without JSON."""

from datetime import UTC, datetime
from typing import Final

from tunefarm_schemas.edge.release import ChannelDocument, ReleaseFile, ReleaseVariant

RUNNER_FORMAT: Final = 1
MAX_RUNNER_BYTES: Final = 64 << 10
"""What a runner reserves for the text."""
SIGNATURE_BYTES: Final = 64
MAX_SIGNATURES: Final = 16
"""What a runner reads of the signatures: Ed25519, one after the other."""
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


def runner_text(document: ChannelDocument) -> bytes:
    """The ``current`` release of a channel, for runners that know neither device classes nor ``previous``.

    Variants of one exact device class are left out. A release that the document revokes has no variants, and the line
    ``revoked-below`` is above its sequence.

    Raises:
        ValueError: the text exceeds 64 KiB.
    """
    release = document.current
    lines = [
        f"tunefarm-release {RUNNER_FORMAT}",
        f"channel {document.channel}",
        f"sequence {document.sequence}",
        f"issued {seconds_of(document.issued)}",
        f"expires {seconds_of(document.expires)}",
    ]
    if document.revoked_below:
        lines.append(f"revoked-below {document.revoked_below}")
    if release.name not in document.revoked:
        for variant in release.variants:
            if variant.device_class_id is None:
                lines += _variant_lines(variant, release.name)
    text = "".join(f"{line}\n" for line in lines).encode()
    if len(text) > MAX_RUNNER_BYTES:
        raise ValueError(f"the text for runners has {len(text)} bytes, more than {MAX_RUNNER_BYTES}")
    return text


def seconds_of(time: str) -> int:
    """Seconds since the Unix epoch of a UtcTime."""
    return int(datetime.strptime(time, _TIME).replace(tzinfo=UTC).timestamp())


def utc_text(moment: datetime) -> str:
    """A moment as UtcTime, to the second."""
    return moment.astimezone(UTC).strftime(_TIME)


def _variant_lines(variant: ReleaseVariant, name: str) -> list[str]:
    features = ",".join(variant.cpu_features) or "-"
    head = f"variant {variant.architecture} {features} {variant.runtime_abi} {name}"
    return [head, *(_file_line(file) for file in (variant.manifest, *variant.files))]


def _file_line(file: ReleaseFile) -> str:
    return f"file {file.path} {file.size_bytes} {file.digest}"
