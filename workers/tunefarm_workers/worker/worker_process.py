"""Runs a worker from start to end."""

import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final
from uuid import uuid4

import structlog

from tunefarm_sandbox.confinement import linux
from tunefarm_sandbox.confinement.abilities import abilities
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.lane import ReferenceCheck
from tunefarm_schemas.frozen import digest
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.broker.celery_intake import CeleryIntake
from tunefarm_workers.broker.lane_heartbeat import LaneVoice
from tunefarm_workers.broker.order_server import OpenLane, OrderServer, Send
from tunefarm_workers.broker.reply_sender import ReplySender
from tunefarm_workers.device.host_name import host_name
from tunefarm_workers.worker.instance_lock import InstanceLock
from tunefarm_workers.worker.lane_opening import LaneContext, opener_of
from tunefarm_workers.worker.lane_state import LaneFacts, LaneStatus
from tunefarm_workers.worker.settings import WorkerSettings

ENDED: Final = 0
REFUSED: Final = 2
CRASHED: Final = 1
_ADMISSION_POLL_S: Final = 0.2

log = structlog.get_logger()


class LaneRefused(Exception):
    """Raised when the farm refuses this worker, with the reason."""


class WorkerProcess:
    """One lane in this process. ``run`` is called once, on the main thread."""

    def __init__(
        self,
        settings: WorkerSettings,
        blobs: Blobs,
        scratch: Path,
        *,
        keep_trying: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``scratch`` is a folder for this process alone; ``say`` prints progress.

        A refused worker ends or, with ``keep_trying``, waits for a farm that admits it.
        """
        self._settings = settings
        self._blobs = blobs
        self._scratch = scratch
        self._keep_trying = keep_trying
        self._say = say
        self._stopping = threading.Event()
        self._second_signal = threading.Event()
        self._intake: CeleryIntake | None = None
        self._status: LaneStatus | None = None
        self._server: OrderServer | None = None

    def run(self) -> int:
        """Serve the lane until SIGTERM or SIGINT, and return the exit status. A second signal skips the grace period.

        Raises:
            BadInput: a setting is invalid.
            ForkFailed: the fork server or the device cannot be used.
            LaneRefused: the farm requires other versions.
        """
        broker = self._settings.broker()
        cores = self._settings.cores()
        remark = _confinement(self._settings)
        # The references of its tasks are in this process: other processes of its user must not read its memory.
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        # First, because threads and children inherit it.
        os.sched_setaffinity(0, cores)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        with ExitStack() as parts:
            name = self._settings.name()
            lane_id = digest(f"{host_name()}\n{name}")[:32]
            lock = InstanceLock(self._settings.home.expanduser().absolute() / "lanes", lane_id, name)
            parts.callback(lock.close)
            sender = ReplySender(broker)
            lane = self._lane(parts, sender.send, lane_id)
            self._server = server = lane.server
            self._status = status = LaneStatus(_facts(self._settings, lane, lane_id, name, cores, remark))
            self._intake = CeleryIntake(broker, lane.queue, server.takers(), name)
            heartbeat = LaneVoice(
                broker,
                server,
                status.facts.instance,
                lambda: status.describe(server.in_flight),
                status.receive,
                lambda: self._beat(server, status, lane.last_check()),
            )
            sender.start()
            server.start(self._end)
            heartbeat.start()
            try:
                if self._await_admission(status, heartbeat):
                    self._say(f"lane {name} is ready: room for {server.room}, {lane.serves}")
                    self._intake.run()
            finally:
                self._shut_down(server, status, heartbeat, sender)
        return ENDED if server.crash is None else CRASHED

    @property
    def is_well(self) -> bool:
        """Whether the lane was admitted and its farm is alive."""
        status, server = self._status, self._server
        return status is not None and server is not None and status.admitted.is_set() and server.crash is None

    def _lane(self, parts: ExitStack, send: Send, lane_id: str) -> OpenLane:
        open_lane, preload = opener_of(self._settings)
        fork_server = ForkServer.start(preload)
        parts.callback(fork_server.close)
        if not fork_server.ready(120.0):
            raise ForkFailed("server_lost", f"TVM does not load: {fork_server.failure}")
        return open_lane(LaneContext(self._settings, fork_server, self._scratch, self._blobs, send, lane_id, parts))

    def _await_admission(self, status: LaneStatus, heartbeat: LaneVoice) -> bool:
        """Wait until a registrar admits the lane; False if stopped meanwhile. Raises LaneRefused."""
        reported = ""
        self._say("waiting for a tuner to admit this lane")
        while not status.admitted.wait(_ADMISSION_POLL_S):
            if self._stopping.is_set():
                return False
            if status.refusal and status.refusal != reported:
                reported = status.refusal
                log.error("the farm refuses this lane", reason=reported)
                heartbeat.hurry()
                if not self._keep_trying:
                    raise LaneRefused(reported)
                self._say(f"refused: {reported}; trying again")
        heartbeat.hurry()
        return not self._stopping.is_set()

    def _beat(self, server: OrderServer, status: LaneStatus, check: ReferenceCheck | None) -> None:
        """Check the device, and start or stop accepting work."""
        status.set_last_check(check)
        if server.crash is None:
            status.set_trouble(server.check_health())
        wanted = status.takes_work
        server.take_work(wanted)
        if self._intake is not None:
            self._intake.set_open(wanted)

    def _shut_down(self, server: OrderServer, status: LaneStatus, heartbeat: LaneVoice, sender: ReplySender) -> None:
        if server.crash is not None:
            status.fail(f"the lane crashed: {server.crash}")
        status.stop()
        server.take_work(False)
        heartbeat.hurry()
        if sys.exc_info()[0] is None and server.crash is None:
            server.settle(0.0 if self._second_signal.is_set() else self._settings.worker_grace_s)
        status.end()
        server.close()
        heartbeat.close()
        sender.close(3.0)

    def _end(self) -> None:
        self._stopping.set()
        if self._status is not None:
            self._status.stop()
        if self._intake is not None:
            self._intake.stop()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._stopping.is_set():
            self._second_signal.set()
        self._end()


def _confinement(settings: WorkerSettings) -> str:
    """The missing confinement, if that is allowed. Raises BadInput."""
    offered = abilities()
    missing = " ".join(offered.missing(connects=settings.worker_kind == "rpc"))
    if missing and not settings.worker_allow_missing_confinement:
        fix = "Use a kernel that supports it, or allow it: --allow-missing-confinement."
        raise BadInput("sandbox", f"candidates cannot be confined fully here. {missing}", fix)
    for attack in offered.open_attacks():
        log.warning("an attack stays open", what=attack)
    return missing


def _facts(
    settings: WorkerSettings,
    lane: OpenLane,
    lane_id: str,
    name: str,
    cores: tuple[int, ...],
    remark: str,
) -> LaneFacts:
    return LaneFacts(
        lane_id=lane_id,
        name=name,
        instance=uuid4().hex,
        device=lane.device,
        code_generator=lane.code_generator,
        kind=settings.worker_kind,
        processor=lane.processor,
        tvm_version=_version_of("apache-tvm"),
        software_version=_version_of("tunefarm-workers"),
        cores=cores,
        room=lane.server.room,
        remark=remark,
    )


def _version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
