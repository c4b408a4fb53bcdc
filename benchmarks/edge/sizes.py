"""Installed size on aarch64, and start and peak memory on x86-64, beside other runtimes.

python -m benchmarks.edge.sizes

ExecuTorch depends on twenty packages that nothing else here needs, so it is measured in an environment of its own:

python -m venv .venv/executorch
.venv/executorch/bin/pip install --constraint constraints.txt executorch==1.5.1 onnx torch
python -m benchmarks.edge.sizes --executorch .venv/executorch/bin/python
"""

import argparse
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import onnx

from benchmarks.edge.first_inference import Starts, measure
from benchmarks.edge.packages import ROOT, NotInIndex, Size, added, native, sources, wheels
from benchmarks.edge.small_bundle import build_library_bundle
from benchmarks.machine import Machine, this_machine
from benchmarks.models.small_network import small_network
from tunefarm_schemas.frozen import Frozen

DEPENDENCIES: Final = ("pydantic", "tuf", "urllib3", "zstandard")
OTHERS: Final = ("ai-edge-litert", "tflite-runtime", "onnxruntime", "executorch")
_OURS: Final = (ROOT / "deploy/edge/agent/tunefarm_edge", ROOT / "schemas/tunefarm_schemas")


class EdgeFigures(Frozen):
    """All figures. ``missing`` says what was left out and why."""

    machine: Machine
    sizes: tuple[Size, ...]
    starts: tuple[Starts, ...]
    missing: tuple[str, ...]


def our_sizes(network: onnx.ModelProto, folder: Path) -> list[Size]:
    """The agent, the runner and the small network, for aarch64."""
    from tests.edge_runner.toolchain import RUNNER, Compiler, zig

    compiler = Compiler(zig("aarch64-linux-gnu.2.28"), "aarch64")
    program = compiler.program(RUNNER / "src/main.cpp", compiler.objects(folder / "objects"), folder / "runner")
    file = folder / "network.onnx"
    onnx.save(network, file)
    bundle = build_library_bundle(file, "aarch64", folder)
    agent = sources("tunefarm-edge and tunefarm-schemas", _OURS)
    dependencies = wheels(DEPENDENCIES, with_dependencies=True)
    return [
        native("tunefarm-runner, stripped", program),
        agent,
        added("the same with all dependencies", agent, dependencies),
        native("small network: kernels, plan and runtime (model.so)", bundle / "model.so"),
    ]


def other_sizes() -> tuple[list[Size], list[str]]:
    """Packages of other runtimes, and which of them the package index lacks."""
    found, missing = [], []
    for name in OTHERS:
        try:
            found.append(wheels([name]))
        except NotInIndex as error:
            missing.append(f"{name}: {error}")
    return found, missing


def table(figures: EdgeFigures) -> str:
    """Both tables as Markdown."""
    rows = [
        f"| {each.name} | {'' if each.packed_bytes is None else _mb(each.packed_bytes)} | {_mb(each.unpacked_bytes)} "
        f"| {_mb(each.native_bytes)} | {_mb(each.largest_native_bytes)} |"
        for each in figures.sizes
    ]
    return "\n".join(
        (
            "| aarch64, MB | packed | unpacked | native libraries | largest of them |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "| x86-64, small network | first inference, least ms | median ms | peak memory, least MB | median MB |",
            "|---|---|---|---|---|",
            *(each.row for each in figures.starts),
            "",
            *(f"- Left out: {each}" for each in figures.missing),
        )
    ).rstrip()


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="processes of each contender; 0 measures sizes only")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/edge", help="folder for the results")
    parser.add_argument(
        "--executorch", default=sys.executable, help="Python with executorch and onnx; default: this one"
    )
    options = parser.parse_args(arguments)
    network = small_network()
    with tempfile.TemporaryDirectory(prefix="tunefarm-edge-") as folder:
        for name in ("aarch64", "x86_64"):
            Path(folder, name).mkdir()
        ours = our_sizes(network, Path(folder, "aarch64"))
        others, missing = other_sizes()
        starts: list[Starts] = []
        if options.rounds and platform.machine() == "x86_64":
            starts, absent = measure(network, Path(folder, "x86_64"), options.rounds, options.executorch)
            missing += absent
    found = EdgeFigures(machine=this_machine(), sizes=(*ours, *others), starts=tuple(starts), missing=tuple(missing))
    print(table(found))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "sizes.json").write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (options.output / "sizes.md").write_text(table(found) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
