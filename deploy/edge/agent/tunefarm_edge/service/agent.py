"""The agent of a device: what it runs, and the steps of one update."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tunefarm_edge.refusal import Refused
from tunefarm_edge.service.device_config import DeviceConfig
from tunefarm_edge.service.report_spool import ReportSpool
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.floor import read_floor
from tunefarm_edge.state.installed import InstalledReleases, folder_name, release_name
from tunefarm_edge.trust.channel import verified_channel
from tunefarm_edge.trust.device_facts import device_facts, variant_for
from tunefarm_edge.trust.source import ReleaseSource
from tunefarm_edge.update.installer import HealthCheck, Installer
from tunefarm_schemas.edge.device import EdgeAction, EdgeAdvice, EdgeFacts, EdgePoll
from tunefarm_schemas.edge.release import ChannelDocument, Release, ReleaseVariant
from tunefarm_schemas.edge.report import InstallReport, LatencyReport, SelfTestReport

TAKE_CURRENT: Final[EdgeAction] = "run_current"


@dataclass(frozen=True)
class UpdateOutcome:
    """What an update led to.

    Attributes:
        running: the release that runs now, if any.
        changed: whether it is another one than before.
        refused: why a release was refused, if one was.
    """

    running: str | None
    changed: bool
    refused: Refused | None = None


class Agent:
    """Updates the releases of a device, whose folder the caller has locked. The first step is ``recover``."""

    def __init__(self, root: EdgeRoot, config: DeviceConfig) -> None:
        self._root, self._config = root, config
        self.spool = ReportSpool(root, config.max_reports)
        self._installed = InstalledReleases(root)
        health = HealthCheck(config.health_command, config.health_deadline_s)
        self._installer = Installer(root, self._tell, health, config.keep_versions)
        self._refused: tuple[str, str] | None = None

    @property
    def facts(self) -> EdgeFacts:
        """What this device is now."""
        return device_facts(self._root.path, self._config.device_class_id)

    @property
    def running(self) -> str | None:
        """The name of the release that programs run."""
        folder = self._installed.current
        return release_name(folder) if folder else None

    @property
    def poll(self) -> EdgePoll:
        """What the device asks its service with."""
        return EdgePoll(facts=self.facts, running=self.running, sequence=read_floor(self._root).sequence)

    def recover(self) -> None:
        """Finish or undo the update that was interrupted, if one was."""
        self._installer.recover()

    def update(
        self, source: ReleaseSource, advice: EdgeAdvice | None = None, max_age: timedelta | None = None
    ) -> UpdateOutcome:
        """Bring the device to what its channel and its service say.

        Args:
            source: the repository.
            advice: of the service; None without one: the channel's current release.
            max_age: see ``verified_channel``.
        """
        before = self._installed.current
        action = advice.action if advice else TAKE_CURRENT
        if action == "stop":
            self._installed.halt()
            return self._outcome(before)
        try:
            refused = self._follow(source, advice, max_age)
        finally:
            source.abandon()
        if refused is None:
            self._refused = None
        return self._outcome(before, refused)

    def _follow(self, source: ReleaseSource, advice: EdgeAdvice | None, max_age: timedelta | None) -> Refused | None:
        """What refused the update, if anything did, once it is reported."""
        release = (advice.release if advice else None) or self.running
        try:
            document = verified_channel(self._root, source, self._config.channel, max_age)
            self._leave_revoked(document)
            wanted = _wanted(document, advice)
            if wanted is None:
                return None
            release = wanted.name
            variant = self._variant(wanted, document)
        except Refused as refused:
            if release:
                self._tell(InstallReport(release=release, failure=refused.failure, detail=refused.problem[:1000]))
            return refused
        try:
            self._installer.install(wanted, variant, document.sequence, source)
        except Refused as refused:  # the installer has reported it
            return refused
        return None

    def _variant(self, wanted: Release, document: ChannelDocument) -> ReleaseVariant:
        if wanted.name in document.revoked:
            raise Refused("revoked", f"{wanted.name} was revoked.", "Publish another release.")
        return variant_for(wanted, self.facts)

    def _leave_revoked(self, document: ChannelDocument) -> None:
        """Stop running a revoked release at once, before anything is fetched; run a permitted one that is here."""
        running = self.running
        if running is None or running not in document.revoked:
            return
        back = self._permitted_here(document)
        if back is not None:
            self._installed.switch(back)
        else:
            self._installed.halt()
        self._tell(
            InstallReport(
                release=running,
                failure="revoked",
                detail=f"revoked by sequence {document.sequence}",
                rolled_back_to=release_name(back) if back else None,
            )
        )

    def _permitted_here(self, document: ChannelDocument) -> str | None:
        """The folder of an installed release that the document permits."""
        floor = read_floor(self._root)
        for release in (document.current, document.previous):
            if release is None or release.name in document.revoked:
                continue
            if floor.failure_of(release.name, document.sequence):
                continue
            for variant in release.variants:
                folder = folder_name(release, variant)
                if self._installed.has(folder) and not self._installed.damaged(folder, variant):
                    return folder
        return None

    def _outcome(self, before: str | None, refused: Refused | None = None) -> UpdateOutcome:
        return UpdateOutcome(self.running, self._installed.current != before, refused)

    def _tell(self, body: InstallReport | SelfTestReport | LatencyReport) -> None:
        if not isinstance(body, InstallReport) or body.failure is None:
            self.spool.put(body)
        elif self._refused != (body.release, body.failure):
            self.spool.put(body)
            self._refused = (body.release, body.failure)


def _wanted(document: ChannelDocument, advice: EdgeAdvice | None) -> Release | None:
    """The release of the document that the advice means; None if it means none, or one that is not in it (yet)."""
    action = advice.action if advice else TAKE_CURRENT
    if action == "stay":
        return None
    wanted = document.current if action == "run_current" else document.previous
    if wanted is None or (advice and advice.release not in (None, wanted.name)):
        return None
    return wanted
