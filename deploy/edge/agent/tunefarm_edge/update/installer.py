"""Installs a release: stages it, tests it, switches to it, confirms it, or goes back. Finishes what was interrupted."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.content_store import ContentStore
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.floor import FailedRelease, read_floor, write_floor
from tunefarm_edge.state.installed import InstalledReleases, folder_name, release_name
from tunefarm_edge.state.journal import Journal, clear_journal, read_journal, write_journal
from tunefarm_edge.trust.device_facts import require_libc
from tunefarm_edge.trust.source import ReleaseSource
from tunefarm_edge.update.fetching import Fetching, full_disk_refused, is_full
from tunefarm_edge.update.trial import first_inference, self_test
from tunefarm_schemas.edge.release import Release, ReleaseVariant
from tunefarm_schemas.edge.report import EdgeFailure, InstallReport, LatencyReport, SelfTestReport

MAX_INTERRUPTIONS: Final = 3
"""A release whose trial is interrupted this often in a row may be what stops the device."""
OF_THE_RELEASE: Final[frozenset[EdgeFailure]] = frozenset(
    {"load_failed", "self_test_failed", "health_check_failed", "crashed"}
)
"""Failures that are not tried again before the channel's next sequence."""
CHECK_S: Final = 86_400.0
"""Between readings of the current release, which find what its storage has damaged."""
TRYING: Final = ("testing", "switching", "confirming")
UNINTERRUPTED: Final[Mapping[str, object]] = MappingProxyType({"interrupted": 0, "interrupted_folder": ""})
"""Fields of ``Floor`` after an update that ended."""

Tell = Callable[[InstallReport | SelfTestReport | LatencyReport], None]


@dataclass(frozen=True)
class HealthCheck:
    """A program that says by its exit status whether the device works with a new release.

    Attributes:
        command: the program and its arguments; nothing is checked without any.
        deadline_s: after which it has failed.
    """

    command: Sequence[str] = ()
    deadline_s: float = 10.0

    def require(self, release: str) -> None:
        """Run it, with ``TUNEFARM_RELEASE`` in its environment.

        Raises:
            Refused: it failed.
        """
        if not self.command:
            return
        environment = {**os.environ, "TUNEFARM_RELEASE": release}
        try:
            ended = subprocess.run(
                self.command,
                env=environment,
                timeout=self.deadline_s,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(
                "health_check_failed", f"the health check: {str(error)[:300]}.", "See its own log."
            ) from error
        if ended.returncode != 0:
            problem = f"the health check ended with {ended.returncode}."
            raise Refused("health_check_failed", problem, "See its own log.")


class Installer:
    """Installs releases below one folder, which the caller has locked."""

    def __init__(self, root: EdgeRoot, tell: Tell, health: HealthCheck | None = None, keep_versions: int = 2) -> None:
        self._root, self._tell = root, tell
        self._health = health or HealthCheck()
        self._keep_versions = keep_versions
        self._installed = InstalledReleases(root)
        self._next_check_s = 0.0

    def install(self, release: Release, variant: ReleaseVariant, sequence: int, source: ReleaseSource) -> bool:
        """Make a release the current one; returns whether it was not yet.

        Raises:
            Refused: the device runs what it ran before.
        """
        folder, came_from = folder_name(release, variant), self._installed.current
        if folder == came_from:
            self._keep_intact(release.name, folder, variant, source)
            return False
        known = read_floor(self._root).failure_of(release.name, sequence)
        if known is not None:
            raise AlreadyFailed(known)
        journal = Journal(step="fetching", release=release.name, sequence=sequence, folder=folder, came_from=came_from)
        try:
            with full_disk_refused(self._root.path):
                self._prepare(journal, variant, source)
                self._activate(self._at(journal, "switching"))
        except Refused as refused:
            self._give_up(journal, refused)
            raise
        return True

    def _keep_intact(self, release: str, folder: str, variant: ReleaseVariant, source: ReleaseSource) -> None:
        """Mend the current release. Reads all of its files, so no more often than ``CHECK_S``."""
        if time.monotonic() < self._next_check_s:
            return
        try:
            with full_disk_refused(self._root.path):
                is_mended = self._mend(folder, variant, source)
        except Refused as refused:
            self._tell(InstallReport(release=release, failure=refused.failure, detail=refused.problem[:1000]))
            raise
        self._next_check_s = time.monotonic() + CHECK_S
        if is_mended:
            self._tell(InstallReport(release=release, failure=None))

    def _at(self, journal: Journal, step: str) -> Journal:
        return write_journal(self._root, journal.model_copy(update={"step": step}))

    def _prepare(self, journal: Journal, variant: ReleaseVariant, source: ReleaseSource) -> None:
        """Bring the release to ``releases``, and test it there. Nothing of it has run before its digests were right."""
        if not self._installed.has(journal.folder):
            self._at(journal, "fetching")
            Fetching(self._root, source).fetch(variant)
            self._at(journal, "staging")
            self._installed.stage(journal.folder, variant)
            self._installed.admit(journal.folder)
        else:
            self._mend(journal.folder, variant, source)
        self._at(journal, "testing")
        self._test(journal)

    def _mend(self, folder: str, variant: ReleaseVariant, source: ReleaseSource) -> bool:
        """Fetch and replace the files of an installed release that were damaged on the device; whether any were."""
        damaged = self._installed.damaged(folder, variant)
        if damaged:
            Fetching(self._root, source).fetch(variant)
            for file in damaged:
                self._installed.replace_file(folder, file)
        return bool(damaged)

    def _test(self, journal: Journal) -> None:
        folder = self._installed.path(journal.folder)
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes())
            wanted = (manifest.get("requires") or {}).get("libc")
        except (OSError, ValueError, AttributeError):
            raise Refused(
                "load_failed", "the bundle's manifest cannot be read.", "Publish the release again."
            ) from None
        require_libc(wanted)
        result = self_test(folder)
        if result.failure != "load_failed":
            self._tell(
                SelfTestReport(
                    release=journal.release,
                    passed=result.failure is None,
                    worst_error=result.worst_error,
                    best_s=result.best_s,
                )
            )
        result.require()

    def _activate(self, journal: Journal) -> None:
        """Switch to a tested release; to the one before if it does not work."""
        decided_s = time.monotonic()
        self._installed.switch(journal.folder)
        self._confirm(journal, decided_s)

    def _confirm(self, journal: Journal, decided_s: float | None) -> None:
        """Let the release do its first inference where programs find it, then ask the health check."""
        result = first_inference(self._root.path)
        self._at(journal, "confirming")
        result.require()
        self._health.require(journal.release)
        activation_s = None if decided_s is None else max(result.ended_s - decided_s, 0.0)
        self._commit(journal, activation_s)

    def _commit(self, journal: Journal, activation_s: float | None) -> None:
        self._installed.remember(journal.came_from)
        self._tell(InstallReport(release=journal.release, failure=None, activation_s=activation_s))
        write_floor(self._root, read_floor(self._root).model_copy(update=UNINTERRUPTED))
        clear_journal(self._root)
        self._installed.prune(self._keep_versions)
        ContentStore(self._root).collect_garbage()

    def _give_up(self, journal: Journal, refused: Refused) -> None:
        """Go back to what ran before, remember and report why, if need be in the place of what is still arriving."""
        try:
            self._go_back(journal, refused)
        except OSError as error:
            if not is_full(error):
                raise
            ContentStore(self._root).collect_garbage()
            self._go_back(journal, refused)

    def _go_back(self, journal: Journal, refused: Refused) -> None:
        went_back = self._installed.current != journal.came_from
        journal = write_journal(
            self._root,
            journal.model_copy(
                update={"step": "rolling_back", "failure": refused.failure, "problem": refused.problem[:900]}
            ),
        )
        self._return(journal)
        if refused.failure in OF_THE_RELEASE:
            failed = FailedRelease(
                release=journal.release,
                sequence=journal.sequence,
                failure=refused.failure,
                detail=refused.problem[:500],
            )
            floor = read_floor(self._root)
            write_floor(self._root, floor.model_copy(update={"failed": failed, **UNINTERRUPTED}))
            self._installed.prune(self._keep_versions)
        back = release_name(journal.came_from) if went_back and journal.came_from else None
        self._tell(
            InstallReport(
                release=journal.release, failure=refused.failure, detail=refused.problem[:1000], rolled_back_to=back
            )
        )
        clear_journal(self._root)

    def _return(self, journal: Journal) -> None:
        if self._installed.current == journal.came_from:
            return
        if journal.came_from and self._installed.has(journal.came_from):
            self._installed.switch(journal.came_from)
        else:
            self._installed.halt()

    def recover(self) -> None:
        """Finish or undo the update that was interrupted, if one was. What runs meanwhile is one whole release."""
        journal = read_journal(self._root)
        self._root.disk.remove_entries(self._root.staging)
        if journal is None:
            return
        floor = read_floor(self._root)
        earlier = floor.interrupted if floor.interrupted_folder == journal.folder else 0
        interrupted = earlier + (journal.step in TRYING)
        try:
            with full_disk_refused(self._root.path):
                counted = {"interrupted": interrupted, "interrupted_folder": journal.folder}
                write_floor(self._root, floor.model_copy(update=counted))
                self._finish(journal, interrupted)
        except Refused as refused:
            self._give_up(journal, refused)

    def _finish(self, journal: Journal, interrupted: int) -> None:
        if journal.step == "rolling_back":
            raise Refused(journal.failure or "interrupted", journal.problem, "See what was wrong with it.")
        if interrupted >= MAX_INTERRUPTIONS:
            problem = f"the device stopped {interrupted} times while it tried the release."
            raise Refused("crashed", problem, "Test the release on such a device before it is published.")
        if self._installed.current == journal.folder != journal.came_from:
            self._confirm(journal, None)
            return
        raise Refused("interrupted", f"the update was interrupted at the step {journal.step!r}.", "It starts again.")


class AlreadyFailed(Refused):
    """The release failed on this device, and its channel has not changed since."""

    def __init__(self, failed: FailedRelease) -> None:
        problem = f"{failed.release} failed here before ({failed.detail})"
        super().__init__(failed.failure, problem, "Publish a release that works; this one is not tried again.")
