"""Publications of a release repository, as the API answers them."""

from tunefarm_schemas.frozen import Frozen


class FileArrival(Frozen):
    """How much of a file has arrived."""

    digest: str
    size_bytes: int
    received_bytes: int
    is_complete: bool


class FileArrivals(Frozen):
    """How much of each file has arrived."""

    files: tuple[FileArrival, ...]


class Published(Frozen):
    """What devices see now. ``changes`` is empty if they saw it before."""

    root_version: int
    timestamp_version: int
    changes: str
