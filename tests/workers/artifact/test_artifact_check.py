"""A shipped library is check_exported against the function that its manifest names."""

from pathlib import Path

import pytest
import tvm
from tvm import te

from tests.workers import workloads
from tests.workers.measuring import RunningFarm
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.measurement import Exported
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.lane.artifact_check import ArtifactCheck, check_artifact

LIMITS = Limits(memory_bytes=1 << 30)


def exported_library(
    running: RunningFarm, module: tvm.IRModule, trace: Trace | None, abi: str = "stable", callees: tuple[str, ...] = ()
) -> Exported:
    opened = running.open(module, abi=abi, callees=callees)
    exported = running.farm.export(workloads.export_order(opened, trace))
    assert isinstance(exported, Exported), exported
    return exported


def manifest_of(exported: Exported, **changes: object) -> ArtifactManifest:
    fields: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "artifact_id": "artifact",
        "record_id": "record",
        "workload_id": "workload",
        "workload_name": "function",
        "arguments": (),
        "target": workloads.TARGET,
        "num_cores": 1,  # two would wait until they share a cache, which a hypervisor decides
        "device_class_id": "class",
        "code_generator": "tvm",
        "protocol_id": workloads.HOT,
        "abi": "stable",
        "entry": exported.entry,
        "pack_entry": exported.pack_entry,
        "packed_arguments": exported.packed_arguments,
        "trace_id": "trace",
        "latency_s": 1e-5,
        "interval_s": None,
        "library_digest": digest(exported.library),
        "library_name": "kernel.so",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return ArtifactManifest.model_validate(fields | changes)


def check_exported(
    fork_server: ForkServer, folder: Path, exported: Exported, module: tvm.IRModule, **changes: object
) -> ArtifactCheck:
    library = folder / "kernel.so"
    library.write_bytes(exported.library)
    return check_artifact(fork_server, manifest_of(exported, **changes), tvm.ir.save_json(module), library, LIMITS)


def test_artifact_check_accepts_correct_library(matmul: Exported, fork_server: ForkServer, tmp_path: Path) -> None:
    check = check_exported(fork_server, tmp_path, matmul, workloads.matmul(64), num_cores=2)
    assert 0.0 <= check.worst_error <= 1.0
    assert 0.0 < check.timing.latency_s < 1.0


def test_artifact_check_calls_only_named_callees(running: RunningFarm, fork_server: ForkServer, tmp_path: Path) -> None:
    source = te.placeholder((16,), name="A")
    out = te.compute((16,), lambda i: tvm.tirx.call_extern("float32", "cosf", source[i]))
    module, library = tvm.IRModule({"main": te.create_prim_func([source, out])}), tmp_path / "kernel.so"
    exported = exported_library(running, module, None, callees=("cosf",))
    library.write_bytes(exported.library)
    given = (fork_server, manifest_of(exported), tvm.ir.save_json(module), library, LIMITS)
    assert check_artifact(*given, callees=("cosf",)).worst_error <= 1.0
    with pytest.raises(BadInput, match="cosf"):
        check_artifact(*given)


def test_artifact_check_accepts_packed_weights(packed_dense: Exported, fork_server: ForkServer, tmp_path: Path) -> None:
    check = check_exported(fork_server, tmp_path, packed_dense, workloads.dense(), abi="packed")
    assert check.worst_error <= 1.0


def test_artifact_check_uses_positive_inputs_and_accepts_sine_and_cosine_at_once(
    running: RunningFarm, fork_server: ForkServer, tmp_path: Path
) -> None:
    module = workloads.rotation_of_root()
    exported = exported_library(running, module, None)
    assert b"sincosf" in exported.library
    assert check_exported(fork_server, tmp_path, exported, module).worst_error <= 1.0


def test_artifact_check_finds_wrong_function(matmul: Exported, fork_server: ForkServer, tmp_path: Path) -> None:
    check = check_exported(fork_server, tmp_path, matmul, workloads.matmul_of_swapped(64))
    assert check.worst_error > 1.0


def test_artifact_check_reports_why_library_fails(matmul: Exported, fork_server: ForkServer, tmp_path: Path) -> None:
    module = workloads.matmul(64)
    with pytest.raises(ChildFailed, match="no_such_function"):
        check_exported(fork_server, tmp_path, matmul, module, entry="no_such_function")
    with pytest.raises(BadInput, match="not finite"):
        check_exported(fork_server, tmp_path, matmul, workloads.not_a_number())
    with pytest.raises(BadInput, match="unknown protocol"):
        check_exported(fork_server, tmp_path, matmul, module, protocol_id="of-tomorrow/9")
