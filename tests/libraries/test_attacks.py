"""Hostile libraries, passed to the check itself and to every caller that would load them."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kernel_library import SOURCE, kernel_library
from tests.libraries.attacks import ATTACKS
from tests.libraries.hostile import MARKED, MARKER, Attack, linked
from tests.libraries.manifests import folder_of, manifest_of
from tunefarm.artifact.artifact_folder import read_artifact, write_artifact
from tunefarm.cli.commands.artifact import run
from tunefarm.http.calls.artifact_calls import RemoteArtifact
from tunefarm.tuning_result import TuningResult
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.check import refusal_of
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_schemas.kernel_library.rules import LibraryRules

LOADED = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
CALLS = "extern int my_function(void); int __tvm_ffi_other(void) { return my_function(); }\n"


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "marker"
    monkeypatch.setenv(MARKER, str(path))
    return path


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name.replace(" ", "-"))
def test_hostile_library_is_refused_with_reason(attack: Attack) -> None:
    refusal = refusal_of(attack.make())
    assert refusal is not None
    assert re.search(attack.reason, refusal), refusal
    assert len(refusal) < 400


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name.replace(" ", "-"))
def test_hostile_library_is_never_loaded(attack: Attack, tmp_path: Path, marker: Path) -> None:
    library = attack.make()
    manifest = manifest_of(library)
    folder = folder_of(tmp_path / "given", library)
    with pytest.raises(BadInput, match="library is refused"):
        run(str(folder))
    with pytest.raises(BadInput, match="library is refused"):
        RemoteArtifact(manifest=manifest, library=library, module_json="{}").compile()
    result = TuningResult(summary=None, record=None, manifest=manifest, library=library, module_json="{}")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="library is refused"):
        result.compile()
    with pytest.raises(BadInput, match="library is refused"):
        write_artifact(tmp_path / "written", manifest, library, "{}")
    assert not (tmp_path / "written").exists()
    assert not marker.exists()


def test_payload_runs_if_loaded_unchecked(tmp_path: Path, marker: Path) -> None:
    (tmp_path / "code.so").write_bytes(linked(MARKED))
    subprocess.run([sys.executable, "-c", LOADED, str(tmp_path / "code.so")], check=True)
    assert marker.exists()


def test_artifact_runner_checks_the_library(tmp_path: Path, marker: Path) -> None:
    folder = folder_of(tmp_path / "given", linked(MARKED))
    command = [sys.executable, "-m", "tunefarm_workers.artifact.artifact_runner", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert ran.returncode == 2, ran.stderr
    assert "runs when it is loaded" in ran.stderr
    assert not marker.exists()


def test_cuda_manifest_allows_no_host_imports(tmp_path: Path) -> None:
    library = linked("void *__TVMFFIEnvModLookupFromImports; void *__TVMFFIFunctionCall;")
    assert refusal_of(library, rules_of('{"kind":"cuda"}')) is None
    folder = folder_of(tmp_path, library, target='{"kind":"cuda"}')
    with pytest.raises(BadInput, match="library is refused"):
        read_artifact(str(folder))
    remote = RemoteArtifact(manifest_of(library, target='{"kind":"cuda"}'), library, "{}")
    with pytest.raises(BadInput, match="library is refused"):
        remote.compile()


def test_callee_is_allowed_only_if_named(tmp_path: Path) -> None:
    library = linked(CALLS)
    folder = folder_of(tmp_path, library)
    with pytest.raises(BadInput, match="my_function"):
        read_artifact(str(folder))
    with pytest.raises(BadInput, match="my_function"):
        read_artifact(str(folder), ["other_function"])
    assert read_artifact(str(folder), ["my_function"])[1] == library


def test_library_for_another_processor_is_refused() -> None:
    here = rules_of(f'{{"kind":"llvm","mtriple":"{os.uname().machine}-linux-gnu"}}')
    elsewhere = "aarch64" if os.uname().machine != "aarch64" else "riscv64"
    assert refusal_of(kernel_library(), here) is None
    refusal = refusal_of(kernel_library(), LibraryRules(architecture=elsewhere))
    assert refusal is not None
    assert f"not for {elsewhere}" in refusal


def test_truncated_library_is_refused() -> None:
    library = kernel_library()
    for length in range(0, len(library) - 1, 97):
        assert refusal_of(library[:length]) is not None, length


def test_valid_kernel_is_accepted_and_loads(tmp_path: Path) -> None:
    pointers = "void *__TVMBackendParallelLaunch; void *__TVMBackendAllocWorkspace;"
    code = "extern double exp(double); int __tvm_ffi_other(int a) { return exp(a) > 3; }"
    library = kernel_library(pointers + code + SOURCE)
    assert refusal_of(library) is None
    (tmp_path / "kernel.so").write_bytes(library)
    assert ctypes.CDLL(str(tmp_path / "kernel.so"))["__tvm_ffi_other"](2) == 1
