"""Bundles as a shared library and as an archive compute the model, and say what they need of a device."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.client.bundle.bundle_library import computed, loaded
from tests.client.bundle.test_bundle import imported
from tests.search.relax.integer.quantized_networks import QuantizedLayer
from tests.search.relax.models import flattened
from tunefarm.bundle.bundle_build import BuiltBundle, BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.link.library_facts import facts_of
from tunefarm.frontend.model_import import ImportedModel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import RUNTIME_ABI
from tunefarm_schemas.tuning.bundle import BundleForm
from tunefarm_search.tvm.cpu_features import required_cpu_features
from tunefarm_search.tvm.target import canonical_target


def built(fork_server: ForkServer, folder: Path, form: BundleForm, cc: str = "", target: str = "host:1") -> BuiltBundle:
    return BundleBuilder(fork_server).build(imported(flattened()), target, "Small net", form, folder, cc=cc)


def test_library_computes_the_test_vector(library: Path) -> None:
    manifest, folder = read_bundle(str(library))
    assert loaded(folder / "model.so").abi_version == RUNTIME_ABI
    for found, name in zip(
        computed(folder, manifest, (folder / "weights.bin").read_bytes()), manifest.vectors[0].outputs, strict=True
    ):
        expected = np.frombuffer((folder / name).read_bytes(), found.dtype)
        np.testing.assert_allclose(found, expected, rtol=0, atol=manifest.tolerance * float(np.abs(expected).max()))


def test_library_computes_something_else_with_other_weights(library: Path) -> None:
    manifest, folder = read_bundle(str(library))
    weights = (folder / "weights.bin").read_bytes()
    right = computed(folder, manifest, weights)
    assert not np.allclose(right[0], computed(folder, manifest, bytes(len(weights)))[0])


def test_manifest_says_what_the_library_needs(library: Path) -> None:
    requires = read_bundle(str(library))[0].requires
    assert requires is not None
    assert (requires.architecture, requires.runtime_abi) == ("x86_64", RUNTIME_ABI)
    assert requires.libc.startswith("glibc 2.")
    assert "libc.so.6" in requires.libraries
    words = Path("/proc/cpuinfo").read_text().split()
    assert set(requires.cpu_features) <= set(words)


@pytest.mark.parametrize(("channels", "needed"), [((256, 32), {"amx_int8", "amx_tile"}), ((32, 32), set())])
def test_manifest_asks_for_a_matrix_unit_only_where_a_kernel_uses_it(
    fork_server: ForkServer, tmp_path: Path, channels: tuple[int, int], needed: set[str]
) -> None:
    layer = QuantizedLayer(0, channels, size=8)
    target = '{"kind": "llvm", "mcpu": "sapphirerapids", "mtriple": "x86_64-linux-gnu", "num-cores": 1}'
    model = ImportedModel(str(tvm.ir.save_json(layer.module())), {}, "test", ())
    made = BundleBuilder(fork_server).build(model, target, "Quantized", "library", tmp_path / "bundle")
    assert made.manifest.requires is not None
    assert {each for each in made.manifest.requires.cpu_features if each.startswith("amx")} == needed


@pytest.mark.faults
def test_equal_builds_have_equal_libraries(fork_server: ForkServer, tmp_path: Path) -> None:
    first, again = (built(fork_server, tmp_path / name / name, "library").folder for name in ("first", "again"))
    files = {path.relative_to(first) for path in first.rglob("*") if path.is_file()}
    assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    assert all((first / each).read_bytes() == (again / each).read_bytes() for each in files)


@pytest.mark.faults
def test_archive_passes_its_self_test(fork_server: ForkServer, tmp_path: Path) -> None:
    folder = built(fork_server, tmp_path / "static", "static").folder
    program = tmp_path / "self_test"
    command = ["cc", "-std=c11", "-O2", "-Wl,--gc-sections", "-Iinclude", "self_test.c", "libmodel.a", "-lm"]
    subprocess.run([*command, "-pthread", "-o", str(program)], cwd=folder, check=True, timeout=600)
    ended = subprocess.run([str(program), str(folder)], capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    again = built(fork_server, tmp_path / "elsewhere", "static").folder
    assert (again / "libmodel.a").read_bytes() == (folder / "libmodel.a").read_bytes()


@pytest.mark.parametrize(
    ("cc", "target", "problem"),
    [
        ("no-such-compiler", "host:1", "'no-such-compiler' was not found"),
        ("cc", "raspberry-pi-4", "failed: "),
        ("", "wasm32-simd128", "no shared library or archive is linked"),
    ],
)
def test_bundle_that_cannot_be_linked_leaves_no_folder(
    fork_server: ForkServer, cc: str, target: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=problem):
        built(fork_server, tmp_path / "bundle", "library", cc, target)
    assert list(tmp_path.iterdir()) == []


def test_library_with_other_exports_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "more.c").write_text("int tunefarm_bundle; int more;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "more.so", "more.c"], cwd=tmp_path, check=True, timeout=600)
    with pytest.raises(BadInput, match="exports more, tunefarm_bundle instead of"):
        facts_of((tmp_path / "more.so").read_bytes(), "x86_64")
    with pytest.raises(BadInput, match="is for x86_64, not for aarch64"):
        facts_of((tmp_path / "more.so").read_bytes(), "aarch64")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"mtriple": "x86_64-linux-gnu"}, ()),
        ({"mtriple": "aarch64-linux-gnu"}, ()),
        ({"mtriple": "riscv64-linux-gnu"}, ()),
        ({"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}, ()),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+dotprod"]}, ("asimddp",)),
        ({"mtriple": "riscv64-linux-gnu", "mattr": ["+v"]}, ("v",)),
        ({"mtriple": "x86_64-linux-gnu", "mattr": ["+avx2"]}, ("avx", "avx2", "pni", "sse4_1", "sse4_2", "ssse3")),
    ],
)
def test_required_features_are_those_beyond_the_base(target: dict[str, object], expected: tuple[str, ...]) -> None:
    found = required_cpu_features(canonical_target({"kind": "llvm", **target}, 1).target)
    assert set(expected) <= set(found)
    assert found == expected or target["mtriple"] == "x86_64-linux-gnu"
    assert bool(found) == bool(expected)
