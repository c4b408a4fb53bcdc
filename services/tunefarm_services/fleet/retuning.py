"""Whether the field contradicts a tuning record, and the job that tunes it again."""

from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.tuning.job import Effort, JobSpec
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.workload import Task
from tunefarm_services.fleet.sign_test import shown

RECORD_LABEL: Final = "retune-of"
CHANNEL_LABEL: Final = "channel"
RELEASE_LABEL: Final = "release"


def contradiction(record: TuningRecord, ratios: Sequence[float], gate: GatePolicy) -> str:
    """How the field contradicts a record; empty if that is not shown.

    ``ratios`` has one number for each device: its median latency divided by that of its manifest. Devices report whole
    models only, so that each record of a model is held against them. A device is beyond the record if its ratio exceeds
    both the tolerance of the gate and the record's interval relative to its latency. More than half of the devices must
    be shown to be beyond, with the confidence of the gate and its least number of devices.
    """
    if len(ratios) < gate.min_devices:
        return ""
    limit = max(1 + gate.tolerance, _widest(record))
    beyond = sum(ratio > limit for ratio in ratios)
    if not shown(beyond, len(ratios), gate.confidence):
        return ""
    return f"the median latency of {beyond} of {len(ratios)} devices is more than {limit:.3g} times the measured one"


def retune_spec(
    record: TuningRecord, name: str, policy: RetunePolicy, labels: dict[str, str], callees: tuple[str, ...]
) -> JobSpec:
    """The job that tunes the workload of a record again, where the record was measured.

    It measures afresh, since what is stored is what the field contradicts; the schedule of the record competes.
    """
    key = record.key
    return JobSpec(
        tasks=(Task(workload_id=key.workload_id, target_id=key.target_id, name=name),),
        effort=Effort(trials=policy.trials, seconds=policy.seconds),
        seed_traces=(record.trace,),
        protocol_id=key.protocol_id,
        abi=key.abi,
        fresh=True,
        labels=labels | {RECORD_LABEL: record.record_id},
        device_class_id=key.device_class_id,
        deadline_s=policy.cool_down_s,
        callees=callees,
    )


def _widest(record: TuningRecord) -> float:
    return 1.0 if record.interval_s is None else record.interval_s[1] / record.latency_s
