import json
from pathlib import Path

import pytest
import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm import target as target_module
from tunefarm_search.tvm.cpu_features import required_cpu_features
from tunefarm_search.tvm.target import canonical_target, host_cpu, host_target, reason_it_cannot_run_here


def test_target_default_num_cores_is_noted() -> None:
    canonical = canonical_target({"kind": "llvm", "mcpu": "znver4"}, default_num_cores=3)
    assert canonical.target.num_cores == 3
    assert any("num-cores" in note for note in canonical.notes)


def test_canonical_target_does_not_depend_on_spelling() -> None:
    first = canonical_target('{"num-cores": 2, "kind": "llvm", "mcpu": "znver4", "model": "my laptop"}')
    second = canonical_target({"kind": "llvm", "mcpu": "znver4", "mtriple": "x86_64-conda-linux-gnu", "num-cores": 2})
    assert first.target == second.target
    assert canonical_target(first.target.canonical).target == first.target


def test_canonical_target_keeps_attributes_of_tag() -> None:
    attributes = json.loads(canonical_target("nvidia/nvidia-h100").target.canonical)
    assert attributes["arch"] == "sm_90a"
    assert "tag" not in attributes


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ('{"kind"', "not valid JSON"),
        ({"kind": "abacus"}, "abacus"),
        ({"kind": "llvm", "colour": "red"}, "colour"),
        ({"kind": "llvm", "mcpu": "znver44"}, "znver4"),
        ({"kind": "llvm", "mtriple": "abacus-linux-gnu"}, "abacus"),
        ({"kind": "llvm", "num-cores": 0}, "num-cores"),
        ({"kind": "llvm", "num-cores": "two"}, "num-cores"),
    ],
)
def test_canonical_target_rejects_unusable_target(given: object, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        canonical_target(given)
    assert refused.value.field == "target"
    assert "Traceback" not in str(refused.value)


def test_host_cannot_run_another_architecture() -> None:
    assert reason_it_cannot_run_here(host_target()) is None
    elsewhere = canonical_target({"kind": "llvm", "mtriple": "riscv64-linux-gnu", "num-cores": 1}).target
    assert "riscv64" in str(reason_it_cannot_run_here(elsewhere))


def test_host_with_the_model_number_of_an_older_processor_is_what_its_instructions_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = canonical_target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 1}).target
    facts = tmp_path / "cpuinfo"
    monkeypatch.setattr(target_module, "CPU_FACTS", facts)
    monkeypatch.setattr(tvm.target.codegen, "llvm_get_system_cpu", lambda: "rocketlake")
    monkeypatch.setattr(target_module, "are_granted", lambda: True)
    flags = [*required_cpu_features(newer), "amx_bf16", "amx_int8", "amx_tile"]

    facts.write_text(f"processor\t: 0\nflags\t\t: fpu {' '.join(flags)}\n")
    assert host_cpu() == "sapphirerapids"
    for missing in flags:
        facts.write_text(f"flags\t\t: fpu {' '.join(flag for flag in flags if flag != missing)}\n")
        assert host_cpu() == "rocketlake"
    facts.write_text("Features\t: fp asimd\n")
    assert host_cpu() == "rocketlake"
    facts.unlink()
    assert host_cpu() == "rocketlake"


def test_host_that_llvm_knows_is_what_llvm_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = canonical_target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 1}).target
    facts = tmp_path / "cpuinfo"
    facts.write_text(f"flags\t\t: {' '.join(required_cpu_features(newer))} amx_bf16 amx_int8 amx_tile\n")
    monkeypatch.setattr(target_module, "CPU_FACTS", facts)
    monkeypatch.setattr(tvm.target.codegen, "llvm_get_system_cpu", lambda: "graniterapids")
    monkeypatch.setattr(target_module, "are_granted", lambda: True)
    assert host_cpu() == "graniterapids"


@pytest.mark.parametrize(("processor", "without"), [("graniterapids", "icelake-server"), ("znver4", "znver4")])
def test_host_whose_kernel_denies_tiles_is_the_last_processor_without(
    monkeypatch: pytest.MonkeyPatch, processor: str, without: str
) -> None:
    monkeypatch.setattr(tvm.target.codegen, "llvm_get_system_cpu", lambda: processor)
    monkeypatch.setattr(target_module, "CPU_FACTS", Path("/nonexistent"))
    monkeypatch.setattr(target_module, "are_granted", lambda: False)
    assert host_cpu() == without


def test_host_cannot_run_missing_instructions() -> None:
    here = canonical_target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}).target
    assert reason_it_cannot_run_here(here) is None
    both = canonical_target({"kind": "llvm", "mcpu": "x86-64", "mattr": ["+amx-tile", "+xop"], "num-cores": 1}).target
    assert "lacks" in str(reason_it_cannot_run_here(both))
