"""This host's device for the tuner of the same machine, without a broker and workers."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.lane import LOCAL_WORKER, Lane, LaneRequest, LaneState
from tunefarm_schemas.farm.processor import processor_for
from tunefarm_schemas.tuning.device import Device
from tunefarm_schemas.tuning.job import Job
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.service.fork_servers import ForkServers
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint, own_processor
from tunefarm_workers.lane.local_farm import LocalFarm

HEARTBEAT_S: Final = 3.0
CPU_TARGETS: Final = frozenset({"llvm"})
HELD_BACK: Final[Mapping[LaneRequest, tuple[LaneState, str]]] = MappingProxyType(
    {
        LaneRequest.DRAIN: (LaneState.DRAINED, "drained on request"),
        LaneRequest.QUARANTINE: (LaneState.QUARANTINED, "quarantined on request"),
        LaneRequest.MAINTENANCE: (LaneState.MAINTENANCE, "in maintenance on request"),
    }
)
"""Requests that keep jobs from the device, with the state and the reason that its lane reports."""


class LocalFarms:
    """Creates farms on this host's device, for one job at a time."""

    def __init__(self, store: Store, fork_servers: ForkServers, scratch: Path) -> None:
        """``scratch`` is a folder for this process alone."""
        self._store = store
        self._fork_servers = fork_servers
        self._scratch = scratch
        self._search_child: Child | None = None
        self._in_use = threading.Lock()
        self._started_at = utc_now()
        self._device: Device | None = None
        self._farm: _HostFarm | None = None
        self._processor = own_processor()
        self._code_generator = ""

    def farm_for(self, lease: Lease, job: Job) -> Farm | NoDevice:
        """A farm on this host for ``job``. Raises ForkFailed."""
        target = self._store.targets.get(job.spec.tasks[0].target_id, tenant=lease.tenant)
        if target.kind not in CPU_TARGETS:
            return NoDevice(f"no live device of kind {target.kind}: this service measures on its own host's processor")
        needed = processor_for(target)
        if not self._processor.runs_code_for(needed):
            return NoDevice(
                f"no live device of kind {target.kind} for {needed.text}: this service measures on its own host's "
                f"processor, which is {self._processor.text}"
            )
        if self._in_use.locked():
            return NoDevice("waits for this host's device")
        if (held := HELD_BACK.get(self._request())) is not None:
            return NoDevice(f"waits for this host's device, which is {held[1]}")
        farm = self._acquire_farm()
        own = farm.device.device_class.device_class_id
        if job.spec.device_class_id not in (None, own):
            farm.close()
            return NoDevice(f"no live device of class {job.spec.device_class_id}; this host's is {own}")
        return farm

    def keep_search_child(self, child: Child | None) -> None:
        """Register the search child, so that it is paused during timing."""
        self._search_child = child

    def identify(self) -> None:
        """Identify this host's device before the first job needs it. Raises ForkFailed."""
        self._acquire_farm().close()

    def send_heartbeats(self, stop: threading.Event) -> None:
        """Send heartbeats, which list the device among the lanes of the farm, until ``stop`` is set."""
        while not stop.is_set():
            with suppress(StoreUnavailable):
                self._beat(*self._state())
            stop.wait(HEARTBEAT_S)
        with suppress(StoreUnavailable):
            self._beat(LaneState.DRAINED, "stopped")

    def _acquire_farm(self) -> "_HostFarm":
        self._in_use.acquire()
        try:
            return self._new_farm()
        except BaseException:
            self._in_use.release()
            raise

    def _new_farm(self) -> "_HostFarm":
        fingerprint = host_fingerprint(cpu_identity())
        known = self._device or self._store.devices.get(LOCAL_TENANT, fingerprint)
        farm = _HostFarm(
            self._fork_servers.present(), self._in_use, scratch=self._scratch, known=known, bystanders=self._bystanders
        )
        if farm.device != known:
            farm.device = self._store.devices.put(LOCAL_TENANT, farm.device)
        self._device, self._code_generator, self._farm = farm.device, farm.code_generator, farm
        return farm

    def _bystanders(self) -> list[Child]:
        return [] if self._search_child is None else [self._search_child]

    def _state(self) -> tuple[LaneState, str]:
        """The state of the lane and its reason. A running job keeps the device until it ends."""
        state, reason = HELD_BACK.get(self._request(), (LaneState.READY, ""))
        if not self._in_use.locked():
            return state, reason
        return (LaneState.DRAINING, reason) if state is LaneState.DRAINED else (LaneState.BUSY, reason)

    def _request(self) -> LaneRequest:
        """What an operator requested of this host's lane."""
        return self._store.lanes.requests().get(self._lane_id, LaneRequest.NONE)

    @property
    def _lane_id(self) -> str:
        return "" if self._device is None else f"local-{self._device.fingerprint[:32]}"

    def _beat(self, state: LaneState, reason: str) -> None:
        if self._device is None:
            return
        cores = tuple(sorted(os.sched_getaffinity(0)))
        lane = Lane(
            lane_id=self._lane_id,
            worker_name=LOCAL_WORKER,
            host_name=self._device.host_name,
            device=self._device,
            code_generator=self._code_generator,
            kind="cpu",
            tvm_version=_tvm_version(self._code_generator),
            protocol_version=1,
            software_version=version("tunefarm"),
            state=state,
            reason=reason,
            cores=cores,
            room=1,
            in_flight=int(self._in_use.locked()),
            started_at=self._started_at,
            seen_at=utc_now(),
            processor=self._processor,
            last_check=None if self._farm is None else self._farm.last_check,
        )
        self._store.lanes.put(lane)


class _HostFarm(LocalFarm):
    """A local farm that frees the device for the next job when it is closed."""

    def __init__(
        self,
        fork_server: ForkServer,
        in_use: threading.Lock,
        *,
        scratch: Path,
        known: Device | None,
        bystanders: Callable[[], Sequence[Child]],
    ) -> None:
        super().__init__(fork_server, scratch=scratch, known=known, bystanders=bystanders)
        self._in_use: threading.Lock | None = in_use

    def close(self) -> None:
        """End every child and release the device. Idempotent."""
        super().close()
        if self._in_use is not None:
            self._in_use.release()
            self._in_use = None


def _tvm_version(code_generator: str) -> str:
    """The TVM version in the name of a code generator."""
    return code_generator.partition("+")[0].removeprefix("tvm-")
