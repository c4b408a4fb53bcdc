"""What devices must have is known for every processor of LLVM that Linux runs on, and nothing is left out silently."""

import json

import pytest
import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.target_preset import PRESET_NAMES, preset_attributes
from tunefarm_search.tvm.cpu_features import required_cpu_features
from tunefarm_search.tvm.target import canonical_target

TRIPLES = {
    "aarch64-linux-gnu": {},
    "x86_64-linux-gnu": {},
    "arm-linux-gnueabihf": {},
    "riscv64-linux-gnu": {"mabi": "lp64d"},
}
WITHOUT_LINUX = {"mclass", "rclass", "32bit"}
"""Microcontrollers, and processors of the other width."""


def target(triple: str, **more: object) -> Target:
    attributes = {"kind": "llvm", "mtriple": triple, "num-cores": 1, **TRIPLES[triple], **more}
    return Target(canonical=json.dumps(attributes), kind="llvm", num_cores=1)


def features(triple: str, processor: str) -> set[str]:
    built = tvm.target.Target(json.loads(target(triple, mcpu=processor).canonical))
    return {str(each) for each in tvm.target.codegen.llvm_get_cpu_features(built)}


@pytest.mark.parametrize("triple", TRIPLES)
def test_features_of_all_processors_are_known(triple: str) -> None:
    architecture = tvm.target.Target(json.loads(target(triple).canonical))
    processors = [str(each) for each in tvm.target.codegen.llvm_get_cpu_archlist(architecture)]
    with_linux = [each for each in processors if not WITHOUT_LINUX & features(triple, each)]
    assert len(with_linux) > 30
    unknown = {}
    for processor in with_linux:
        try:
            required_cpu_features(target(triple, mcpu=processor))
        except BadInput as error:
            unknown[processor] = str(error)
    assert not unknown


@pytest.mark.parametrize(
    ("triple", "processor"), [("arm-linux-gnueabihf", "cortex-m55"), ("arm-linux-gnueabihf", "cortex-r52")]
)
def test_processor_without_linux_is_rejected(triple: str, processor: str) -> None:
    with pytest.raises(BadInput, match="it is not known what a device needs for LLVM's feature") as raised:
        required_cpu_features(target(triple, mcpu=processor))
    assert "--form objects" in raised.value.fix


def test_unknown_feature_is_rejected() -> None:
    with pytest.raises(BadInput, match="LLVM's feature 'rtm'"):
        required_cpu_features(target("x86_64-linux-gnu", mattr=["+rtm"]))


@pytest.mark.parametrize(
    ("triple", "processor", "expected"),
    [
        ("aarch64-linux-gnu", "neoverse-n1", {"asimddp", "asimdhp", "fphp", "atomics", "asimdrdm", "lrcpc"}),
        ("aarch64-linux-gnu", "apple-m1", {"sha3", "uscat", "asimddp", "frint"}),
        ("arm-linux-gnueabihf", "cortex-a7", {"neon", "vfp", "vfpv3", "vfpv4", "vfpd32", "idiva", "idivt"}),
        ("x86_64-linux-gnu", "znver4", {"avx512f", "avx512_vnni", "avx512_bf16", "fma", "abm", "pni"}),
        ("riscv64-linux-gnu", "spacemit-x60", {"v", "zba", "zbb", "zbs", "zicond", "zvl256b"}),
    ],
)
def test_required_features_of_processors(triple: str, processor: str, expected: set[str]) -> None:
    found = set(required_cpu_features(target(triple, mcpu=processor)))
    assert expected <= found
    assert not found & {"b", "zkt", "ziccif", "aes", "crc32", "a76"}


def test_x86_64_v2_needs_what_its_definition_names() -> None:
    given = canonical_target(json.loads(target("x86_64-linux-gnu", mcpu="x86-64-v2").canonical), 1).target
    assert set(required_cpu_features(given)) == {"cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"}


def test_tile_instructions_are_needed_where_they_are_asked_for() -> None:
    assert not [
        each for each in required_cpu_features(target("x86_64-linux-gnu", mcpu="sapphirerapids")) if "amx" in each
    ]
    asked = required_cpu_features(target("x86_64-linux-gnu", mcpu="sapphirerapids", mattr=["+amx-int8"]))
    assert "amx_int8" in asked


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_features_of_all_presets_are_known(name: str) -> None:
    required_cpu_features(canonical_target(preset_attributes(name) or {}, 1).target)
