"""The state of a lane, from the registrar's answers and its own troubles."""

import threading
from dataclasses import dataclass, field

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.farm_message import MESSAGE_VERSION, LaneAnswer
from tunefarm_schemas.farm.lane import Lane, LaneKind, LaneRequest, LaneState, ReferenceCheck
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.tuning.device import Device


@dataclass(frozen=True)
class LaneFacts:
    """The constants of a lane's process. ``remark`` is shown in every state, such as missing confinement."""

    lane_id: str
    name: str
    instance: str
    device: Device
    code_generator: str
    kind: LaneKind
    processor: Processor
    tvm_version: str
    software_version: str
    cores: tuple[int, ...]
    room: int
    remark: str = ""
    started_at: str = field(default_factory=utc_now)


class LaneStatus:
    """The lane's state, which its heartbeats show and which decides whether it accepts work. Thread-safe."""

    def __init__(self, facts: LaneFacts) -> None:
        self.facts = facts
        self.admitted = threading.Event()
        self.refusal = ""
        self._request = LaneRequest.NONE
        self._trouble = ""
        self._last_check: ReferenceCheck | None = None
        self._failure = ""
        self._is_stopping = False
        self._has_ended = False

    def receive(self, answer: LaneAnswer) -> None:
        """Record a registrar's answer. A refusal also revokes an earlier admission."""
        if answer.instance and answer.instance != self.facts.instance:
            return
        if not answer.admitted:
            self.refusal = answer.reason or "the farm has an incompatible version"
            self.admitted.clear()
            return
        self.refusal = ""
        self._request = answer.request
        self.admitted.set()

    def set_trouble(self, trouble: str) -> None:
        """Record why the device cannot be used now; empty if it can."""
        self._trouble = trouble

    def set_last_check(self, check: ReferenceCheck | None) -> None:
        """Record the latest check of the device."""
        self._last_check = check

    def fail(self, failure: str) -> None:
        """Record that the farm crashed."""
        self._failure = failure

    def stop(self) -> None:
        """Accept no more work."""
        self._is_stopping = True

    def end(self) -> None:
        """Record that no order is left."""
        self._has_ended = True

    @property
    def takes_work(self) -> bool:
        """Whether orders may begin now."""
        return self._state(0)[0].takes_work

    def describe(self, in_flight: int) -> Lane:
        """The lane as shown in a heartbeat."""
        state, reason = self._state(in_flight)
        facts = self.facts
        return Lane(
            lane_id=facts.lane_id,
            worker_name=facts.name,
            host_name=facts.device.host_name,
            device=facts.device,
            code_generator=facts.code_generator,
            kind=facts.kind,
            tvm_version=facts.tvm_version,
            protocol_version=MESSAGE_VERSION,
            software_version=facts.software_version,
            state=state,
            reason=" ".join(part for part in (reason, facts.remark) if part),
            cores=facts.cores,
            room=facts.room,
            in_flight=in_flight,
            started_at=facts.started_at,
            seen_at=utc_now(),
            processor=facts.processor,
            last_check=self._last_check,
        )

    def _state(self, in_flight: int) -> tuple[LaneState, str]:
        drained = LaneState.DRAINING if in_flight else LaneState.DRAINED
        if self.refusal:
            return LaneState.REFUSED, self.refusal
        if self._failure:
            return LaneState.QUARANTINED, self._failure
        if self._has_ended or self._is_stopping:
            return LaneState.DRAINED if self._has_ended else drained, "stopped"
        if not self.admitted.is_set():
            return LaneState.STARTING, ""
        match self._request:
            case LaneRequest.DRAIN:
                return drained, "drained on request"
            case LaneRequest.QUARANTINE:
                return LaneState.QUARANTINED, "quarantined on request"
            case LaneRequest.MAINTENANCE:
                return LaneState.MAINTENANCE, "in maintenance on request"
        if self._trouble:
            return LaneState.QUARANTINED, self._trouble
        return LaneState.BUSY if in_flight else LaneState.READY, ""
