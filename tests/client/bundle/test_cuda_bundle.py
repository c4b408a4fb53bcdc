"""Bundles for NVIDIA GPUs: everything compiles, and the host part calls a stand-in of the driver in order."""

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.client.bundle.cuda_functions import bound, cuda_bundle, functions, gpu_target, matmul, mirrored_sum, tiled
from tests.client.bundle.emulated_gpu.emulator import Emulator
from tests.client.bundle.fat_binary import contents
from tests.client.bundle.test_bundle import imported
from tests.search.relax.models import multilayer_perceptron
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_source import FunctionsSource
from tunefarm.bundle.cuda.nvcc import GpuArchitecture
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import CudaRequirements
from tunefarm_schemas.tuning.target_preset import NAMED_TARGETS, NamedTarget
from tunefarm_search.tvm.target import canonical_target

STRICT = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I.", "-Iruntime")


def needs_nvcc(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.targets(pytest.mark.usefixtures("nvcc")(test))


@dataclass(frozen=True)
class HostPart:
    """The self-test of a bundle, beside a stand-in of the driver that writes its calls to a file."""

    folder: Path
    place: Path

    def __call__(self, settings: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        sources = "".join(each.read_text() for each in sorted(self.folder.glob("kernels/*.cu")))
        counts = {name: each.count("*") for name, each in re.findall(r"(\w+_kernel\w*)\(([^)]*)\) \{", sources)}
        environment = {
            "LD_LIBRARY_PATH": str(self.place),
            "CALLS": str(self.place / "calls"),
            "PARAMETERS": "".join(f"{name}={count}," for name, count in counts.items()),
            **(settings or {}),
        }
        (self.place / "calls").unlink(missing_ok=True)
        run = [str(self.place / "self_test"), str(self.folder), "1", "1"]
        return subprocess.run(run, env=environment, check=False, capture_output=True, text=True, timeout=60)

    def calls(self) -> list[str]:
        return (self.place / "calls").read_text().splitlines()


def host_part(folder: Path, place: Path) -> HostPart:
    place.mkdir()
    Emulator.compiled(place)
    sources = sorted(
        str(each.relative_to(folder)) for name in ("kernels", "runtime") for each in folder.glob(f"{name}/*.c")
    )
    command = ["cc", *STRICT, "model.c", *sources, "-lm", "-ldl", "-pthread", "-o", str(place / "self_test")]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    return HostPart(folder, place)


@pytest.fixture(scope="module")
def built(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda") / "bundle"
    cuda_bundle(fork_server, folder, functions())
    return folder


@pytest.fixture(scope="module")
def host(built: Path, tmp_path_factory: pytest.TempPathFactory) -> HostPart:
    return host_part(built, tmp_path_factory.mktemp("host") / "place")


@needs_nvcc
def test_host_part_allocates_copies_launches_and_frees_in_order(host: HostPart) -> None:
    ended = host()
    # Nothing computed the outputs, which are not numbers: the self-test says so.
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "3 vectors, worst error inf of what is allowed" in ended.stdout
    assert host.calls() == [
        *("allocate 0: 512", "allocate 1: 512", "in 0: 512"),
        *("launch model_gpu_twice_kernel 16,1,1 8,1,1 0: 0 1", "synchronize", "out 1: 512"),
        "release: 0 blocks, 0 modules",
        *("allocate 2: 8192", "allocate 3: 8192", "allocate 4: 8192", "in 2: 8192"),
        "launch model_gpu_mirrored_kernel 32,1,1 64,1,1 0: 2 4",
        "launch model_gpu_mirrored_kernel_1 32,1,1 64,1,1 0: 4 3",
        *("synchronize", "out 3: 8192", "release: 0 blocks, 0 modules"),
        *("allocate 5: 8192", "allocate 6: 16384", "allocate 7: 32768", "in 5: 8192", "in 6: 16384"),
        *("launch model_gpu_matmul_kernel 4,4,1 32,16,1 0: 5 6 7", "synchronize", "out 7: 32768"),
        "release: 0 blocks, 0 modules",
    ]


@needs_nvcc
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"MAJOR": "7", "MINOR": "5"}, "the GPU has the compute capability 7.5, and the kernels need 8.0"),
        ({"DRIVER": "12080"}, "the driver has the CUDA version 12.8, and the kernels need 13."),
        ({"FAILS": "719"}, "twice_kernel: of the stand-in (719)"),
    ],
)
def test_unsuitable_device_is_an_error_and_nothing_is_left(
    host: HostPart, settings: dict[str, str], problem: str
) -> None:
    ended = host(settings)
    assert ended.returncode == 1
    assert problem in ended.stderr
    if (host.place / "calls").exists() and "FAILS" not in settings:
        assert host.calls()[-1] == "release: 0 blocks, 0 modules"


@needs_nvcc
def test_driver_that_cannot_be_loaded_is_an_error(host: HostPart) -> None:
    broken = host.place / "broken"  # found before a driver of this host
    broken.mkdir()
    (broken / "libcuda.so.1").write_text("not a library")
    ended = host({"LD_LIBRARY_PATH": str(broken)})
    assert ended.returncode == 1
    assert "the NVIDIA driver cannot be loaded: " in ended.stderr
    assert "libcuda.so.1" in ended.stderr


@needs_nvcc
def test_later_gpu_runs_the_intermediate_code(host: HostPart) -> None:
    assert "3 vectors" in host({"MAJOR": "12"}).stdout


@needs_nvcc
def test_dynamic_shared_memory_is_asked_for_and_launched(fork_server: ForkServer, tmp_path: Path) -> None:
    given = (tiled(matmul(), "4" * 32, "shared.dyn"),)
    manifest = cuda_bundle(fork_server, tmp_path / "bundle", given)
    assert manifest.requires_cuda is not None
    assert manifest.requires_cuda.shared_memory_bytes == 1536
    host = host_part(tmp_path / "bundle", tmp_path / "host")
    assert "1 vectors" in host().stdout
    assert "attribute model_gpu_matmul_kernel 8 1536" in host.calls()
    assert "launch model_gpu_matmul_kernel 4,4,1 32,16,1 1536: 0 1 2" in host.calls()


@needs_nvcc
def test_manifest_says_what_a_gpu_must_have(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    required = CudaRequirements.model_validate(manifest["requires_cuda"])
    assert (required.architecture, required.compute_capability, required.is_exact) == ("sm_80", "8.0", False)
    assert required.shared_memory_bytes == 4 * (16 * 8 + 8 * 32)
    assert manifest["form"] == "cuda"
    assert manifest["code_generator"].endswith("+cuda")
    bill = (built / "sbom.cdx.json").read_text()
    assert "nvcc" in bill
    assert "llvm" not in bill


@needs_nvcc
def test_bundle_has_the_source_and_the_code_of_each_kernel(built: Path) -> None:
    for number in range(3):
        assert "__global__" in (built / f"kernels/kernel{number}.cu").read_text()
        image = (built / f"kernels/kernel{number}.fatbin").read_bytes()
        lines = (built / f"kernels/kernel{number}.c").read_text().partition("image[] = {")[2].partition("}")[0]
        assert bytes(int(each) for each in lines.replace("\n", "").split(",") if each.strip()) == image
    assert not (built / "runtime/tunefarm_model.c").exists()
    assert not (built / "runtime/tunefarm_bundle.c").exists()


@needs_nvcc
def test_equal_functions_give_equal_bytes(fork_server: ForkServer, built: Path, tmp_path: Path) -> None:
    cuda_bundle(fork_server, tmp_path / "again", functions())

    def digests(folder: Path) -> dict[str, str]:
        files = (each for each in folder.rglob("*") if each.is_file())
        return {str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}

    assert digests(tmp_path / "again") == digests(built)


@needs_nvcc
def test_cmake_builds_the_self_test(built: Path, tmp_path: Path) -> None:
    subprocess.run(["cmake", "-S", str(built), "-B", str(tmp_path)], check=True, capture_output=True, timeout=300)
    subprocess.run(["cmake", "--build", str(tmp_path)], check=True, capture_output=True, timeout=300)
    assert (tmp_path / "self_test").exists()


@needs_nvcc
@pytest.mark.parametrize(
    "preset", [each for each in NAMED_TARGETS if each.name.startswith("nvidia-")], ids=lambda preset: preset.name
)
def test_bundle_is_built_for_each_preset(preset: NamedTarget, fork_server: ForkServer, tmp_path: Path) -> None:
    target = canonical_target(preset.attributes).target
    manifest = cuda_bundle(fork_server, tmp_path / "bundle", (tiled(matmul(), "9" * 32),), target)
    assert manifest.requires_cuda is not None
    assert manifest.requires_cuda.architecture == preset.attributes["arch"]
    number = int(manifest.requires_cuda.compute_capability.replace(".", ""))
    image = (tmp_path / "bundle/kernels/kernel0.fatbin").read_bytes()
    assert contents(image) == {("machine", number), ("intermediate", number)}


@needs_nvcc
def test_architecture_with_own_instructions_is_exact(fork_server: ForkServer, tmp_path: Path) -> None:
    manifest = cuda_bundle(fork_server, tmp_path / "bundle", (bound(mirrored_sum(), "5" * 32),), gpu_target("sm_90a"))
    assert manifest.requires_cuda is not None
    assert (manifest.requires_cuda.compute_capability, manifest.requires_cuda.is_exact) == ("9.0", True)
    assert contents((tmp_path / "bundle/kernels/kernel0.fatbin").read_bytes()) == {("machine", 90)}
    host = host_part(tmp_path / "bundle", tmp_path / "host")
    ended = host({"MAJOR": "10"})
    assert "the GPU has the compute capability 10.0, and the kernels need 9.0 exactly" in ended.stderr
    assert "1 vectors" in host({"MAJOR": "9"}).stdout


def test_form_and_target_must_match(fork_server: ForkServer, tmp_path: Path) -> None:
    given = (bound(mirrored_sum(), "8" * 32),)
    source = FunctionsSource(given, gpu_target(), needs_schedules=True)
    with pytest.raises(BadInput, match=r"contain code of processors, not of cuda. Give --form cuda"):
        BundleBuilder(fork_server).build_source(source, "gpu", "objects", tmp_path / "bundle")
    with pytest.raises(BadInput, match="contain code of GPUs, not of llvm"):
        BundleBuilder(fork_server).build_source(FunctionsSource(given, "host:1"), "gpu", "cuda", tmp_path / "bundle")


@needs_nvcc
def test_model_keeps_its_weights_on_the_device(fork_server: ForkServer, tmp_path: Path) -> None:
    built = BundleBuilder(fork_server).build(
        imported(multilayer_perceptron()), "nvidia-a100", "net", "cuda", tmp_path / "bundle"
    )
    assert {(each.kind, each.way) for each in built.manifest.functions} == {("untried", "matrix product")}
    host = host_part(tmp_path / "bundle", tmp_path / "host")
    assert "1 vectors" in host().stdout
    weights, arena = built.manifest.weights_bytes, built.manifest.arena_bytes
    allocated = [f"allocate 0: {weights}", f"allocate 1: {arena}", "allocate 2: 256", "allocate 3: 160"]
    assert host.calls()[:6] == [*allocated, f"in 0: {weights}", "in 2: 256"]
    launches = [each for each in host.calls() if each.startswith("launch")]
    assert [set(each.partition(":")[2].split()) for each in launches] == [set("012"), set("01"), set("013")]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("", r"a model is compiled for a GPU, and none is named\. Name a GPU"),
        ("host:1", r"bundles of the form cuda contain code of GPUs, not of llvm\. Name a GPU"),
    ],
)
def test_model_needs_a_gpu(target: str, problem: str, fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=problem):
        BundleBuilder(fork_server).build(imported(multilayer_perceptron()), target, "net", "cuda", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_gpu_is_no_target_of_other_forms(fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"models are compiled for CPUs, not for cuda\. Name a CPU\. For an NVIDIA GPU"):
        BundleBuilder(fork_server).build(
            imported(multilayer_perceptron()), "nvidia-a100", "net", "objects", tmp_path / "bundle"
        )


@pytest.mark.parametrize("name", ["", "sm_", "native", "compute_80", "sm_80; rm", "-gencode"])
def test_architecture_is_one_of_a_gpu(name: str) -> None:
    with pytest.raises(BadInput, match="which names no GPU"):
        GpuArchitecture.named(name)


def test_architectures_have_a_compute_capability() -> None:
    found = [GpuArchitecture.named(name) for name in ("sm_75", "sm_90a", "sm_120")]
    assert [(each.major, each.minor, each.is_exact) for each in found] == [
        (7, 5, False),
        (9, 0, True),
        (12, 0, False),
    ]
