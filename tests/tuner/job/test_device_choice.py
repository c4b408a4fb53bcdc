"""The device choice selects a device that runs the job's code; without one, the job waits with a reason."""

from pathlib import Path

import pytest

from tests.contract.store.test_store_farm import lane
from tests.store.sample import DEVICE, TENANT, leased, spec, workload
from tunefarm.server.local_farms import LocalFarms
from tunefarm_schemas.farm.lane import Lane, LaneState
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.device import Device, DeviceClass
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Task
from tunefarm_services.store import Store
from tunefarm_services.tuner.farm.device_choice import ChosenDevice, choose_device
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.service.fork_servers import ForkServers

X86 = Processor(architecture="x86_64", x86_level=3)
ARM = Processor(architecture="aarch64")


def target(kind: str = "llvm", num_cores: int = 2, **attributes: object) -> Target:
    canonical = canonical_json({"kind": kind, "num-cores": num_cores, **attributes})
    return Target(canonical=canonical, kind=kind, num_cores=num_cores)


RASPBERRY = target(mtriple="aarch64-linux-gnu", mcpu="cortex-a72")


def job_for(store: Store, wanted: Target, device_class_id: str | None = None) -> Job:
    stored = store.workloads.put(TENANT, workload())
    store.targets.put(TENANT, wanted)
    task = Task(workload_id=stored.workload_id, target_id=wanted.target_id, name=stored.name)
    return store.jobs.create(TENANT, spec(task).model_copy(update={"device_class_id": device_class_id}))


def device(name: str) -> Device:
    of_class = DeviceClass.model_validate(DEVICE.device_class.model_dump() | {"name": name})
    return Device(fingerprint=name, host_name=name, device_class=of_class, reference=DEVICE.reference)


def lane_of(name: str, **changes: object) -> Lane:
    return lane(name, **{"device": device(name), **changes})


def chosen(store: Store, wanted: Target) -> str:
    found = choose_device(store, job_for(store, wanted))
    assert isinstance(found, ChosenDevice), found
    return found.device.host_name


def missing(store: Store, wanted: Target, device_class_id: str | None = None) -> str:
    found = choose_device(store, job_for(store, wanted, device_class_id))
    assert isinstance(found, NoDevice), found
    return found.reason


def test_job_runs_on_architecture_of_its_target(store: Store) -> None:
    store.lanes.put_all([lane_of("host", processor=X86), lane_of("board", kind="rpc", processor=ARM)])
    assert chosen(store, RASPBERRY) == "board"
    assert chosen(store, target(mtriple="x86_64-linux-gnu")) == "host"
    assert chosen(store, target()) == "host", "a target that names none runs anywhere, and hosts come first"


def test_compile_only_lane_gets_no_job(store: Store) -> None:
    store.lanes.put(lane_of("compiler", kind="compile", processor=X86))
    assert "no live device of kind llvm" in missing(store, target())
    assert "no live device" in missing(store, target(), device("compiler").device_class.device_class_id)


def test_lane_without_processor_accepts_any_target(store: Store) -> None:
    store.lanes.put(lane_of("older"))
    assert chosen(store, RASPBERRY) == "older"


def test_cuda_job_runs_on_card_of_its_generation(store: Store) -> None:
    cards = {"older": "sm_75", "fitting": "sm_86", "newer": "sm_90"}
    store.lanes.put_all(
        [lane_of(name, kind="cuda", processor=Processor(architecture=card)) for name, card in cards.items()]
    )
    assert chosen(store, target("cuda", 0, arch="sm_80")) == "fitting"
    assert chosen(store, target("cuda", 0, arch="sm_90a")) == "newer"
    reason = missing(store, target("cuda", 0, arch="sm_100"))
    assert "kind cuda for sm_100" in reason
    assert "sm_75, sm_86, sm_90" in reason


def test_x86_level_job_skips_processors_without_its_instructions(store: Store) -> None:
    newest = target(mtriple="x86_64-linux-gnu", mcpu="x86-64-v4")
    store.lanes.put(lane_of("older", processor=X86))
    assert "x86-64-v4: those that are live are x86-64-v3" in missing(store, newest)
    store.lanes.put(lane_of("newer", processor=Processor(architecture="x86_64", x86_level=4)))
    assert chosen(store, newest) == "newer"
    assert chosen(store, target(mtriple="x86_64-linux-gnu", mcpu="x86-64-v3")) in {"older", "newer"}


def test_job_without_suitable_lane_waits_with_reason(store: Store) -> None:
    host = lane_of("host", processor=X86)
    store.lanes.put(host)
    reason = missing(store, RASPBERRY)
    assert "kind llvm for aarch64" in reason
    assert "x86-64-v3" in reason
    assert "waits" in reason
    own_class = host.device.device_class.device_class_id
    assert f"device class {own_class} for aarch64" in missing(store, RASPBERRY, own_class)


@pytest.mark.parametrize("state", [LaneState.QUARANTINED, LaneState.LOST])
def test_job_waits_for_unavailable_suitable_lane(store: Store, state: LaneState) -> None:
    store.lanes.put_all([lane_of("host", processor=X86), lane_of("board", kind="rpc", processor=ARM, state=state)])
    reason = missing(store, RASPBERRY)
    assert "kind llvm for aarch64" in reason
    assert state.value in reason


def test_reason_names_missing_cores(store: Store) -> None:
    store.lanes.put(lane_of("host", processor=X86))
    assert "has the 64 cores" in missing(store, target(num_cores=64, mtriple="x86_64-linux-gnu"))


def test_local_service_keeps_jobs_for_other_hosts_waiting(
    store: Store, fork_servers: ForkServers, tmp_path: Path
) -> None:
    job = job_for(store, target(mtriple="riscv64-linux-gnu"))
    found = LocalFarms(store, fork_servers, tmp_path).farm_for(leased(store, job), job)
    assert isinstance(found, NoDevice)
    assert "kind llvm for riscv64" in found.reason
