"""The folder of a device: where everything is, and the lock that admits one agent."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tunefarm_edge.state.disk import Disk
from tunefarm_schemas.bad_input import BadInput

DEFAULT_ROOT: Final = Path("/var/lib/tunefarm-edge")
CURRENT: Final = "current"
PREVIOUS: Final = "previous"

_SHARED: Final = 0o1777


@dataclass(frozen=True)
class EdgeRoot:
    """Paths below the folder of a device.

    Attributes:
        path: the folder.
        disk: changes files.
    """

    path: Path
    disk: Disk = field(default_factory=Disk)

    @property
    def config(self) -> Path:
        """Base URL, channel, device; the token is in a file of its own."""
        return self.path / "config.json"

    @property
    def token(self) -> Path:
        """The secret of the device, mode 0600."""
        return self.path / "token"

    @property
    def pinned_root(self) -> Path:
        """The root metadata that all trust starts from."""
        return self.path / "root.json"

    @property
    def trust(self) -> Path:
        """Verified TUF metadata."""
        return self.path / "trust"

    @property
    def floor(self) -> Path:
        """What the device never goes below."""
        return self.path / "floor.json"

    @property
    def journal(self) -> Path:
        """The running update."""
        return self.path / "journal.json"

    @property
    def files(self) -> Path:
        """Verified files by their SHA-256."""
        return self.path / "files"

    @property
    def partial(self) -> Path:
        """Files that are still arriving, by the SHA-256 that they shall have."""
        return self.path / "partial"

    @property
    def staging(self) -> Path:
        """Folders that are being made or removed; worth nothing after a restart."""
        return self.path / "staging"

    @property
    def releases(self) -> Path:
        """Whole releases, as folders of hard links to ``files``."""
        return self.path / "releases"

    @property
    def reports(self) -> Path:
        """Reports that the service has not got yet."""
        return self.path / "reports"

    @property
    def latencies(self) -> Path:
        """Histograms of the processes that run models."""
        return self.path / "latencies"

    @property
    def reported(self) -> Path:
        """The histograms as they were when they were last reported; ``latencies`` is writable for others."""
        return self.path / "reported"

    def make_folders(self) -> None:
        """Make what is missing."""
        self.disk.make_folder(self.path)
        own = (self.trust, self.files, self.partial, self.staging, self.releases, self.reports, self.reported)
        for folder in own:
            self.disk.make_folder(folder)
        self.disk.make_folder(self.latencies)
        if stat.S_IMODE(self.latencies.stat().st_mode) != _SHARED:
            # Programs that run models may have other users.
            self.latencies.chmod(_SHARED)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one agent.

        Raises:
            BadInput: another agent holds it.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            problem = f"another agent uses {self.path}."
            raise BadInput("--root", problem, "Wait until it ends, or stop its service.") from None
        try:
            yield
        finally:
            os.close(descriptor)
