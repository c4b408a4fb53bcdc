"""Functions as modules for WebAssembly: with schedules that were tuned for processors, and with untried ones.

python -m benchmarks.edge.wasm_schedules --trials 128
"""

import argparse
import re
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import wasmtime

from tests.targets.run_wasm import exit_code
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_source import FunctionsSource, RecordFunction
from tunefarm.bundle.link.linking import WASM_SELF_TEST
from tunefarm.bundle.messages import PlannedParts
from tunefarm.embedded import tune
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.bundle import WASM_TARGET
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import workload_of
from tunefarm_services.settings import Settings

MODULES: Final = (
    "builtin:matmul_bias_relu:256x256x256",
    "builtin:batch_matmul:8x64x64x64",
    "builtin:softmax:64x1024",
    "te:C2D",
)
TUNED_FOR: Final[Mapping[str, str]] = {
    "this host": "host:1",
    "128-bit vectors": '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2", "num-cores": 1}',
}
_MILLISECONDS: Final = re.compile(r"([0-9.]+) ms a run")


@dataclass(frozen=True)
class UntriedSource(FunctionsSource):
    """Functions whose records are ignored."""

    def chosen(self, parts: PlannedParts) -> Mapping[str, ChosenRecord]:  # noqa: ARG002 - it ignores them
        """None."""
        return {}


def tuned(module: str, target: str, trials: int, home: Path) -> RecordFunction:
    """Tune a function; returns it with the schedule that was found."""
    result = tune(module, target=target, trials=trials, settings=Settings(home=home))
    assert result.record is not None, result.summary.message
    assert result.module_json is not None
    workload = workload_of(load_json(result.module_json))
    return RecordFunction(workload, ChosenRecord(result.record.record_id, result.record.trace.text))


def built(fork_server: ForkServer, source: FunctionsSource, folder: Path) -> Path:
    """Build the module. Raises BadInput if a schedule does not apply."""
    return BundleBuilder(fork_server).build_source(source, "function", "wasm", folder).folder


class WasmRuns:
    """Runs of the self-test of a bundle, compiled once."""

    def __init__(self, engine: wasmtime.Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._module = wasmtime.Module.from_file(engine, str(folder / WASM_SELF_TEST))

    def latency_ms(self, runs: int) -> float:
        """The fastest of ``runs``."""
        output = self._folder.parent / "output"
        system = wasmtime.WasiConfig()
        system.argv = ["self_test", "/", "1", str(runs)]
        system.preopen_dir(str(self._folder), "/", fs_mutable=False)
        system.stdout_file = str(output)
        assert exit_code(self._engine, self._module, system) == 0
        found = _MILLISECONDS.search(output.read_text())
        assert found is not None
        return float(found[1])


def main(trials: int, rounds: int, runs: int) -> None:
    """Print the time of a run of each module, and its ratio to that of the untried schedule: the median of rounds."""
    engine = wasmtime.Engine()
    with tempfile.TemporaryDirectory() as scratch, start_fork_server() as fork_server:
        for number, module in enumerate(MODULES):
            folder = Path(scratch) / str(number)
            functions = {name: tuned(module, target, trials, folder / "home") for name, target in TUNED_FOR.items()}
            sources = {
                name: FunctionsSource((each,), WASM_TARGET, needs_schedules=True) for name, each in functions.items()
            }
            first = next(iter(sources.values()))
            sources["untried"] = UntriedSource(first.functions, WASM_TARGET)
            of_names = {
                name: WasmRuns(engine, built(fork_server, each, folder / name)) for name, each in sources.items()
            }
            samples: dict[str, list[float]] = {name: [] for name in of_names}
            for _ in range(rounds):
                for name, each in of_names.items():
                    samples[name].append(each.latency_ms(runs))
            for name, times_ms in samples.items():
                ratios = [untried / own for untried, own in zip(samples["untried"], times_ms, strict=True)]
                median_ms = statistics.median(times_ms)
                print(f"{module} {name}: {median_ms:.3f} ms, {statistics.median(ratios):.2f} times as fast as untried")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--trials", type=int, default=128)
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--runs", type=int, default=20)
    main(**vars(arguments.parse_args()))
