"""Processors that targets require, processors of devices, and whether they match."""

import pytest

from tunefarm_schemas.farm.processor import Processor, architecture_named, card_runs, processor_for
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.target import Target


def needed(kind: str = "llvm", **attributes: object) -> Processor:
    canonical = canonical_json({"kind": kind, "num-cores": 2, **attributes})
    return processor_for(Target(canonical=canonical, kind=kind, num_cores=2))


@pytest.mark.parametrize(
    ("attributes", "processor"),
    [
        ({}, Processor()),
        ({"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}, Processor(architecture="aarch64")),
        ({"mtriple": "arm64-apple-darwin23"}, Processor(architecture="aarch64")),
        ({"mtriple": "x86_64-conda-linux-gnu", "mcpu": "znver4"}, Processor(architecture="x86_64")),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"}, Processor(architecture="x86_64")),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v4"}, Processor(architecture="x86_64", x86_level=4)),
        ({"kind": "cuda", "arch": "sm_90a"}, Processor(architecture="sm_90a")),
        ({"kind": "cuda", "arch": "the newest"}, Processor()),
        ({"kind": "cuda"}, Processor()),
    ],
)
def test_target_requires_its_processor(attributes: dict[str, str], processor: Processor) -> None:
    assert needed(**attributes) == processor


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (("x86_64", "AMD64"), "x86_64"),
        (("aarch64", "arm64"), "aarch64"),
        (("arm", "armv7l", "armv7a", "thumbv7em"), "arm"),
        (("i386", "i686"), "i386"),
        (("riscv64",), "riscv64"),
        (("",), ""),
    ],
)
def test_architecture_names_are_normalized(names: tuple[str, ...], name: str) -> None:
    assert {architecture_named(each) for each in names} == {name}


X86 = Processor(architecture="x86_64", x86_level=3)
ARM = Processor(architecture="aarch64")
CARD = Processor(architecture="sm_86")


@pytest.mark.parametrize(
    ("there", "asked", "runs"),
    [
        (X86, X86, True),
        (X86, ARM, False),
        (ARM, ARM, True),
        (ARM, X86, False),
        (X86, Processor(architecture="x86_64"), True),
        (X86, Processor(architecture="x86_64", x86_level=4), False),
        (Processor(architecture="x86_64"), Processor(architecture="x86_64", x86_level=4), True),
        (X86, Processor(), True),
        (Processor(), ARM, True),
        (CARD, Processor(architecture="sm_80"), True),
        (CARD, Processor(architecture="sm_90"), False),
        (CARD, Processor(), True),
    ],
)
def test_unknown_processor_fields_exclude_nothing(there: Processor, asked: Processor, runs: bool) -> None:
    assert there.runs_code_for(asked) is runs


@pytest.mark.parametrize(
    ("asked", "present", "runs"),
    [
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_80a", "sm_86", False),
        ("sm_90", "x86_64", None),
        ("", "sm_90", None),
    ],
)
def test_gpu_runs_code_of_its_generation(asked: str, present: str, runs: bool | None) -> None:
    assert card_runs(asked, present) is runs


def test_processor_text_is_one_word() -> None:
    assert [each.text for each in (X86, ARM, CARD, Processor())] == ["x86-64-v3", "aarch64", "sm_86", ""]
