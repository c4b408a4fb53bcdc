"""Tunes a matrix product and a fused convolution on a GPU of this host, and records the results.

``python -m benchmarks.cuda_check --trials 256 --output results`` needs NVIDIA's driver and either cuda-bindings or the
toolkit's nvcc. If PyTorch is installed, its own product of the same size is timed as well.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.farm.farm_tuning import tune_on
from benchmarks.workload_module import workload_module
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_workers.cuda.cuda_farm import CudaFarm
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.cuda.gpu_lane import PRELOAD
from tunefarm_workers.cuda.gpu_target import target_of_gpu

_READY_S = 300.0
_MATMUL_EXTENT = 1024


class CheckedWorkload(Frozen):
    """Latencies in seconds, None if unknown. ``failures`` counts failed trials by reason."""

    name: str
    operations: float
    trials: int
    wall_s: float
    tuned_s: float | None
    interval_s: tuple[float, float] | None
    untuned_s: float | None
    library_s: float | None
    failures: dict[str, int]
    first_failure: str


class CudaCheck(Frozen):
    """The results and the device."""

    device: str
    code_generator: str
    environment: str
    confined: bool
    workloads: tuple[CheckedWorkload, ...]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Tune two functions on a GPU of this host.")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--extent", type=int, default=_MATMUL_EXTENT, help="of the matrix product, in each dimension")
    parser.add_argument("--output", type=Path, help="a folder for cuda-check.json")
    options = parser.parse_args()
    try:
        check = run(CudaSettings(), options.trials, options.extent)
    except BadInput as error:
        print(f"error: {error.field}: {error.problem} {error.fix}", file=sys.stderr)
        return 2
    text = check.model_dump_json(indent=2)
    print(text)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "cuda-check.json").write_text(text)
    return 0 if all(workload.tuned_s is not None for workload in check.workloads) else 3


def run(settings: CudaSettings, trials: int, extent: int) -> CudaCheck:
    """Tune both functions. Raises ``BadInput`` when the device cannot be used."""
    from tunefarm_search.tvm.target import canonical_target, host_target

    with (
        ForkServer.start(PRELOAD) as fork_server,
        tempfile.TemporaryDirectory(prefix="cuda-check-") as folder,
    ):
        if not fork_server.ready(_READY_S):
            raise BadInput("device", f"the fork server did not start: {fork_server.failure}.", "Install what it names.")
        farm = CudaFarm(fork_server, settings, scratch=Path(folder))
        try:
            on_gpu = settings.device_type == "cuda"
            target = canonical_target(target_of_gpu(farm.facts)).target if on_gpu else host_target()
            library_s = _library_product_s(extent) if on_gpu else None
            checked = (
                _checked(farm, fork_server, f"matmul {extent}", _matmul(extent), target, trials, library_s),
                _checked(
                    farm, fork_server, "convolution + bias + norm + relu", workload_module("CBR"), target, trials, None
                ),
            )
            return CudaCheck(
                device=farm.device.device_class.name,
                code_generator=farm.code_generator,
                environment=farm.environment.model_dump_json(),
                confined=settings.confined,
                workloads=checked,
            )
        finally:
            farm.close()


def _checked(
    farm: CudaFarm, fork_server: ForkServer, name: str, module: Any, target: Any, trials: int, library_s: float | None
) -> CheckedWorkload:
    from tunefarm_search.tvm.workload import workload_of

    print(f"{name}: {trials} trials", file=sys.stderr, flush=True)
    began_s = time.monotonic()
    workload = workload_of(module, name=name)
    task = tune_on(farm, fork_server, workload, target, HOT_CACHE.protocol_id, trials=trials).tasks[0]
    return CheckedWorkload(
        name=name,
        operations=workload.floating_point_operations,
        trials=task.trials,
        wall_s=time.monotonic() - began_s,
        tuned_s=task.best_latency_s,
        interval_s=task.interval_s,
        untuned_s=task.untuned_latency_s,
        library_s=library_s,
        failures=task.failures,
        first_failure=task.first_failure_message,
    )


def _matmul(extent: int) -> Any:
    import tvm
    from tvm import te

    left = te.placeholder((extent, extent), name="A")
    right = te.placeholder((extent, extent), name="B")
    axis = te.reduce_axis((0, extent), name="k")
    product = te.compute((extent, extent), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C")
    return tvm.IRModule({"main": te.create_prim_func([left, right, product])})


def _library_product_s(extent: int) -> float | None:
    """PyTorch's product in float32 without reduced precision, in a separate process; None without PyTorch."""
    from benchmarks.child_process import CommandFailed, run_command

    program = (
        "import json, torch\n"
        "torch.backends.cuda.matmul.allow_tf32 = False\n"
        f"a, b = (torch.randn({extent}, {extent}, device='cuda') for _ in range(2))\n"
        "[a @ b for _ in range(20)]\n"
        "start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "start.record()\n"
        "[a @ b for _ in range(100)]\n"
        "end.record()\n"
        "torch.cuda.synchronize()\n"
        "print(json.dumps({'seconds': start.elapsed_time(end) / 1e5}))\n"
    )
    try:
        finished = run_command([sys.executable, "-c", program], cores=1, environment={}, timeout_s=300)
    except CommandFailed:
        return None
    return float(str(finished.last_json()["seconds"]))


if __name__ == "__main__":
    sys.exit(main())
