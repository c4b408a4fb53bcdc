"""Whatever parts of a model onnxruntime and OpenVINO run, it computes what torch computes; its folder is checked."""

import gc
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

# torch and its exporters warn about themselves.
pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from benchmarks.models.agreement import worst_error  # noqa: E402
from benchmarks.models.model_files import model_file  # noqa: E402
from benchmarks.models.zoo import TINY_ZOO, as_tensors  # noqa: E402
from tests.models.library.regions import libraries_for  # noqa: E402
from tests.search.relax.models import two_entries  # noqa: E402
from tunefarm.frontend.model_import import ImportedModel, import_model  # noqa: E402
from tunefarm.frontend.model_source import ModelFile, parse_model_source  # noqa: E402
from tunefarm.frontend.reading import read_model  # noqa: E402
from tunefarm.model.compilation import Compilation, ModelCompiler  # noqa: E402
from tunefarm.model.library.library import LIBRARIES  # noqa: E402
from tunefarm.model.library.onnxruntime_kernel import OnnxRuntimeKernel  # noqa: E402
from tunefarm.model.library.openvino_kernel import OpenVinoKernel  # noqa: E402
from tunefarm.model.library.registration import register_region  # noqa: E402
from tunefarm.model.loaded_model import load_model  # noqa: E402
from tunefarm.model.model_run import run_model  # noqa: E402
from tunefarm.model.race import library_race  # noqa: E402
from tunefarm.model.race.library_race import choose_libraries  # noqa: E402
from tunefarm.model.race.plan_folder import LibraryPlan, PlanFolders, PlannedModel  # noqa: E402
from tunefarm.model.race.race_result import RaceResult, TimedPlan  # noqa: E402
from tunefarm.startup.fork_servers import start_fork_server  # noqa: E402
from tunefarm_sandbox.fork_server.fork_server import ForkServer  # noqa: E402
from tunefarm_schemas.bad_input import BadInput  # noqa: E402
from tunefarm_schemas.tuning.model import ModelManifest  # noqa: E402
from tunefarm_search.relax.library_regions.cutting import CutModel, cut  # noqa: E402
from tunefarm_search.relax.library_regions.units import units_of  # noqa: E402
from tunefarm_search.relax.lowering import lower, virtual_machine  # noqa: E402
from tunefarm_search.relax.onnx_graph import onnx_model, unsupported  # noqa: E402
from tunefarm_search.relax.preparation import prepare  # noqa: E402
from tunefarm_search.tvm.target import host_target  # noqa: E402
from tunefarm_workers.builder.scheduled_module import build_scheduled  # noqa: E402

Arrays = tuple[npt.NDArray[np.generic], ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started


@pytest.mark.parametrize("name", TINY_ZOO)
def test_any_mix_of_libraries_computes_what_torch_computes(name: str, folder: Path) -> None:
    model = TINY_ZOO[name]
    module, _ = model.build()
    path = model_file(model, "pt2", folder)
    read = read_model(ModelFile(path=str(path), format="pt2"), {})
    prepared = prepare(read.module, read.weights, host_target(1))
    units = units_of(prepared, unsupported)
    least = 1 if name == "int8-cnn" else len(units) // 2 + 1  # integer convolutions are not exported
    assert sum(not unit.problem for unit in units) >= least
    generator = random.Random(name)
    libraries = libraries_for(name)
    mixed = [*libraries, None]
    for choices in (*([library] for library in libraries), mixed, mixed):
        plan = [None if unit.problem else generator.choice(choices) for unit in units]
        machine = _machine(cut(prepared, units, plan), folder)
        inputs = model.inputs(1)
        found = _run(machine, tuple(tensor.numpy() for tensor in inputs))
        assert worst_error(found, _expected(module, inputs)) <= model.tolerance, plan


def _machine(model: CutModel, folder: Path) -> Any:
    for region in model.regions:
        path = folder / "region.onnx"
        path.write_bytes(onnx_model(region.function, None).model)
        register_region(region.name, LIBRARIES[region.library].open(path, 1, spins=False))
    target = model.prepared.target
    return virtual_machine(lower(model.prepared.module, target), target, build_scheduled)


def _run(machine: Any, inputs: Arrays) -> Arrays:
    import tvm

    outputs = machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    return tuple(output.numpy() for output in ([outputs] if hasattr(outputs, "numpy") else outputs))


def _expected(module: Any, inputs: Sequence[Any]) -> Arrays:
    with torch.no_grad():
        return tuple(tensor.numpy() for tensor in as_tensors(module(*inputs)))


class CompilerOfPlan(ModelCompiler):
    """Compiles a model by a plan that no race decides: units of it have the libraries in turn."""

    in_turn: tuple[str | None, ...]

    def _raced(self, folders: Any, parts: Any, library: bytes, external: Sequence[str], reference: Any) -> RaceResult:
        turns = enumerate(parts.units)
        plan = LibraryPlan(tuple(None if unit.problem else self.in_turn[at % len(self.in_turn)] for at, unit in turns))
        ours = TimedPlan(LibraryPlan((None,) * len(parts.units)), None)
        return RaceResult(TimedPlan(plan, None), (ours,), 0.0)


class CompilerWithoutChild(CompilerOfPlan):
    """The child that cuts the model ends after the race."""

    def _raced(self, folders: Any, *others: Any) -> RaceResult:
        result = super()._raced(folders, *others)
        folders.planned(result.winner.plan)
        self._child.kill()
        return result


def compiled(
    fork_server: ForkServer, path: Path, output: Path, *in_turn: str | None, kind: type[CompilerOfPlan] = CompilerOfPlan
) -> Compilation:
    imported = import_model(fork_server, parse_model_source(str(path)), {})
    compiler = kind(fork_server, output, libraries=choose_libraries())
    compiler.in_turn = in_turn
    return compiler.compile(imported, "host:1", "model")


@pytest.fixture(scope="module")
def mixed(fork_server: ForkServer, folder: Path) -> Compilation:
    path = model_file(TINY_ZOO["resnet18"], "pt2", folder)
    return compiled(fork_server, path, folder / "mixed", "onnxruntime", None, "openvino")


def test_a_compiled_mix_is_verified_and_computes_what_torch_computes(
    mixed: Compilation, fork_server: ForkServer
) -> None:
    manifest = mixed.manifest
    assert {region.library for region in manifest.regions} == {"onnxruntime", "openvino"}
    assert all("==" in region.requirement for region in manifest.regions)
    assert 0 < len(manifest.functions) < 15
    assert manifest.verified is not None
    files = {path.name for path in mixed.folder.iterdir()}
    regions = {region.file for region in manifest.regions}
    assert files == {"kernels.so", "program.vm", "weights.safetensors", "manifest.json", *regions}
    assert all((mixed.folder / name).stat().st_mode & 0o044 == 0o044 for name in files)
    model = TINY_ZOO["resnet18"]
    module, inputs = model.build()
    loaded, again = load_model(mixed.folder), load_model(mixed.folder)
    for each in (loaded, again):
        found = each(*(tensor.numpy() for tensor in inputs))
        assert worst_error((found,), _expected(module, inputs)) <= model.tolerance
    assert run_model(fork_server, mixed.folder, (mixed.folder / "kernels.so").read_bytes()).latency_s > 0


def test_a_plan_ships_although_the_child_that_cut_it_has_ended(
    fork_server: ForkServer, folder: Path, tmp_path: Path
) -> None:
    path = model_file(TINY_ZOO["u-net"], "pt2", folder)
    compilation = compiled(fork_server, path, tmp_path / "ended", "onnxruntime", None, kind=CompilerWithoutChild)
    assert compilation.manifest.regions
    assert compilation.manifest.verified is not None
    load_model(compilation.folder)


def test_sessions_of_libraries_end_with_their_model(mixed: Compilation) -> None:
    before = _sessions()
    loaded = load_model(mixed.folder)
    assert _sessions() == before + len(mixed.manifest.regions)
    del loaded
    assert _sessions() == before


def _sessions() -> int:
    gc.collect()
    return sum(isinstance(each, OnnxRuntimeKernel | OpenVinoKernel) for each in gc.get_objects())


def test_weights_are_stored_once(mixed: Compilation) -> None:
    parameters = sum(each.numel() * 4 for each in TINY_ZOO["resnet18"].make().parameters())
    weights_bytes = (mixed.folder / "weights.safetensors").stat().st_size
    assert weights_bytes < parameters + 16_000
    assert sum((mixed.folder / region.file).stat().st_size for region in mixed.manifest.regions) < parameters / 2


def test_load_model_refuses_damaged_regions_and_other_versions(mixed: Compilation, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(mixed.folder, tmp_path / "copy"))
    region = mixed.manifest.regions[0]
    content = (folder / region.file).read_bytes()
    (folder / region.file).write_bytes(content[:-1] + b"\0")
    with pytest.raises(BadInput, match=f"{region.file} does not match the manifest"):
        load_model(folder)
    (folder / region.file).unlink()
    with pytest.raises(BadInput, match=f"{region.file} cannot be read"):
        load_model(folder)
    (folder / region.file).write_bytes(content)
    newer = region.model_copy(update={"requirement": f"{region.library}==9999.0"})
    regions = (newer, *mixed.manifest.regions[1:])
    text = mixed.manifest.model_copy(update={"regions": regions}).model_dump_json()
    (folder / "manifest.json").write_text(text)
    with pytest.raises(BadInput, match=r"needs \w+==9999.0.*--no-libraries") as raised:
        load_model(folder)
    assert f"pip install '{region.library}==9999.0'" in str(raised.value)


def test_a_model_needs_its_library(mixed: Compilation) -> None:
    code = (
        "import importlib.metadata as metadata, sys\n"
        "of, absent = metadata.version, metadata.PackageNotFoundError\n"
        "def version(name):\n"
        "    if name == 'openvino': raise absent(name)\n"
        "    return of(name)\n"
        "metadata.version = version\n"
        "import tunefarm\n"
        f"tunefarm.load_model({str(mixed.folder)!r})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "the model needs openvino, which is not installed" in ended.stderr


def test_a_model_without_libraries_replaces_one_with_them(
    mixed: Compilation, fork_server: ForkServer, folder: Path
) -> None:
    copy = Path(shutil.copytree(mixed.folder, folder / "replaced"))
    compilation = compiled(fork_server, model_file(TINY_ZOO["resnet18"], "pt2", folder), copy, None)
    assert compilation.manifest.regions == ()
    assert sorted(path.name for path in copy.iterdir()) == [
        "kernels.so",
        "manifest.json",
        "program.vm",
        "weights.safetensors",
    ]
    load_model(copy)


def test_compile_with_libraries_races(folder: Path, tmp_path: Path) -> None:
    path, output = model_file(TINY_ZOO["u-net"], "pt2", folder), tmp_path / "raced"
    command = [sys.executable, "-m", "tunefarm", "compile", str(path), "--fresh", "--output", str(output), "--json"]
    ended = subprocess.run([*command, "--libraries", "--race-seconds", "2"], check=True, capture_output=True, text=True)
    answer = json.loads(ended.stdout)
    plans = [each["plan"] for each in answer["race"]["plans"]]
    assert plans[0] == "our kernels"
    assert any(plan.startswith("onnxruntime") for plan in plans)
    assert any(plan.startswith("openvino") for plan in plans)
    manifest = ModelManifest.model_validate_json((output / "manifest.json").read_bytes())
    assert answer["regions"] == [region.model_dump(mode="json") for region in manifest.regions]
    assert answer["race"]["winner"] in plans
    assert (answer["race"]["winner"] == "our kernels") == (manifest.regions == ())


def test_a_race_without_seconds_runs_our_kernels_alone(folder: Path, tmp_path: Path, fork_server: ForkServer) -> None:
    imported = import_model(fork_server, parse_model_source(str(model_file(TINY_ZOO["u-net"], "pt2", folder))), {})
    compiler = ModelCompiler(fork_server, tmp_path / "ours", libraries=choose_libraries(race_s=0.0))
    compilation = compiler.compile(imported, "host:1", "model")
    race = compilation.race
    assert race is not None
    assert race.winner.plan.libraries == compilation.manifest.regions == ()
    ours, *others = race.timed
    assert ours.latency_s == sum(ours.entries_s) > 0
    assert {each.plan.libraries for each in others} == {(library,) for library in LIBRARIES}
    assert all(each.problem == "not timed within --race-seconds 0" for each in others)


def test_a_library_with_wrong_results_wins_no_race(
    folder: Path, tmp_path: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = PlanFolders.planned

    def planned_wrong(folders: PlanFolders, plan: LibraryPlan, **options: bool) -> PlannedModel:
        found = planned(folders, plan, **options)
        if plan.libraries != ("onnxruntime",):
            return found
        return replace(found, regions=tuple(map(with_other_activation, found.regions)))

    monkeypatch.setattr(PlanFolders, "planned", planned_wrong)
    monkeypatch.setattr(library_race, "is_better", lambda ratios, has_fewer_libraries: True)
    imported = import_model(fork_server, parse_model_source(str(model_file(TINY_ZOO["u-net"], "pt2", folder))), {})
    compiler = ModelCompiler(fork_server, tmp_path / "right", libraries=choose_libraries(race_s=20.0))
    compilation = compiler.compile(imported, "host:1", "model")
    race = compilation.race
    assert race is not None
    assert "onnxruntime" not in {region.library for region in compilation.manifest.regions}
    whole = next(each for each in race.timed if each.plan.libraries == ("onnxruntime",))
    assert whole.latency_s is None
    assert "its results differ from its framework's" in whole.problem
    assert any(each.latency_s is not None for each in race.timed if each.plan.libraries == ("openvino",))


def with_other_activation(region: bytes) -> bytes:
    """An ONNX model that computes something else."""
    model = onnx.ModelProto.FromString(region)
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Neg"
    return bytes(model.SerializeToString())


def test_a_race_times_all_entries(tmp_path: Path, fork_server: ForkServer) -> None:
    import tvm

    small = two_entries()
    imported = ImportedModel(str(tvm.ir.save_json(small.module)), small.weights, "test", ())
    compiler = ModelCompiler(fork_server, tmp_path / "entries", libraries=choose_libraries(race_s=5.0))
    race = compiler.compile(imported, "host:1", "model").race
    assert race is not None
    assert race.timed[0].plan.libraries == ()
    timed = [each for each in race.timed if each.latency_s is not None]
    assert race.winner in timed
    assert all(len(each.entries_s) == 2 and each.latency_s == sum(each.entries_s) for each in timed)
