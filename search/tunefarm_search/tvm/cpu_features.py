"""The instruction sets that code for a target may use beyond its architecture's base, as Linux names them."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.unneeded_cpu_features import UNNEEDED_FEATURES

_X86: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sse3": "pni",
        "ssse3": "ssse3",
        "sse4.1": "sse4_1",
        "sse4.2": "sse4_2",
        "sse4a": "sse4a",
        "avx": "avx",
        "avx2": "avx2",
        "fma": "fma",
        "fma4": "fma4",
        "f16c": "f16c",
        "xop": "xop",
        "tbm": "tbm",
        "bmi": "bmi1",
        "bmi2": "bmi2",
        "lzcnt": "abm",
        "popcnt": "popcnt",
        "movbe": "movbe",
        "cx16": "cx16",
        "sahf": "lahf_lm",
        "gfni": "gfni",
        "avx512f": "avx512f",
        "avx512cd": "avx512cd",
        "avx512bw": "avx512bw",
        "avx512dq": "avx512dq",
        "avx512vl": "avx512vl",
        "avx512er": "avx512er",
        "avx512ifma": "avx512ifma",
        "avx512vbmi": "avx512vbmi",
        "avx512vbmi2": "avx512_vbmi2",
        "avx512vnni": "avx512_vnni",
        "avx512bitalg": "avx512_bitalg",
        "avx512vpopcntdq": "avx512_vpopcntdq",
        "avx512bf16": "avx512_bf16",
        "avx512fp16": "avx512_fp16",
        "avx512vp2intersect": "avx512_vp2intersect",
        "avxvnni": "avx_vnni",
        "avxvnniint8": "avx_vnni_int8",
        "avxvnniint16": "avx_vnni_int16",
        "avxifma": "avx_ifma",
        "avxneconvert": "avx_ne_convert",
        "amx-tile": "amx_tile",
        "amx-int8": "amx_int8",
        "amx-bf16": "amx_bf16",
        "amx-fp16": "amx_fp16",
        "amx-complex": "amx_complex",
        "amx-fp8": "amx_fp8",
        "amx-tf32": "amx_tf32",
        "amx-avx512": "amx_avx512",
        "amx-movrs": "amx_movrs",
        "cmpccxadd": "cmpccxadd",
        "avx10.1": "avx10_1",
        "avx10.2": "avx10_2",
        **dict.fromkeys(("egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu"), "apxf"),
    }
)
_AARCH64: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dotprod": "asimddp",
        "fullfp16": "asimdhp",
        "fp16fml": "asimdfhm",
        "rdm": "asimdrdm",
        "lse": "atomics",
        "complxnum": "fcma",
        "jsconv": "jscvt",
        "rcpc": "lrcpc",
        "rcpc-immo": "ilrcpc",
        "fptoint": "frint",
        "flagm": "flagm",
        "altnzcv": "flagm2",
        "i8mm": "i8mm",
        "bf16": "bf16",
        "sve": "sve",
        "sve2": "sve2",
        "f32mm": "svef32mm",
        "f64mm": "svef64mm",
        "sve2p1": "sve2p1",
        "sme": "sme",
        "sme2": "sme2",
        "mops": "mops",
        "cssc": "cssc",
        "lse128": "lse128",
        "rcpc3": "lrcpc3",
        "fp8": "f8cvt",
        "faminmax": "faminmax",
        "sha3": "sha3",
        "lse2": "uscat",
        "hbc": "hbc",
        "lut": "lut",
        "fp8dot2": "f8dp2",
        "fp8dot4": "f8dp4",
        "fp8fma": "f8fma",
        "sve-aes": "sveaes",
        "sve-bitperm": "svebitperm",
        "sve-sha3": "svesha3",
        "sve-sm4": "svesm4",
        "sve-b16b16": "sveb16b16",
        "sme-b16b16": "smeb16b16",
        "sme-f16f16": "smef16f16",
        "sme-f64f64": "smef64f64",
        "sme-i16i64": "smei16i64",
        "sme2p1": "sme2p1",
    }
)
_ARM: Final[Mapping[str, str]] = MappingProxyType(
    {
        "neon": "neon",
        "vfp2sp": "vfp",
        "vfp3d16sp": "vfpv3",
        "vfp4d16sp": "vfpv4",
        "d32": "vfpd32",
        "hwdiv": "idivt",
        "hwdiv-arm": "idiva",
        "dotprod": "asimddp",
        "fullfp16": "asimdhp",
        "i8mm": "i8mm",
        # Linux has no name for Armv8 in 32 bits. CRC instructions came with it, and all its processors have them.
        "v8": "crc32",
        "acquire-release": "crc32",
        "fp-armv8d16sp": "crc32",
        "bf16": "asimdbf16",
        "fp16fml": "asimdfhm",
    }
)
_TILES: Final = "amx-"
"""LLVM emits tile instructions for intrinsics only, and many virtual machines hide those of their processor."""
_RISCV_EXTENSION: Final = re.compile(r"[a-z]|[zx][a-z0-9]+")
_RISCV_IMPLIED: Final = re.compile(r"zicsr|zifencei|zmmul|zaamo|zalrsc|zca|zcd|zve(32|64)[xfd]|zvl(32|64|128)b")
"""Parts of the base and of the extension V, which kernels before 6.10 do not name."""


def required_cpu_features(target: Target) -> tuple[str, ...]:
    """Features of a processor with Linux, as ``/proc/cpuinfo`` names them, in order; none for other targets.

    A device that has all of them never meets an unknown instruction in code that LLVM generates for the target.

    Raises:
        BadInput: for ``target``: LLVM may use instructions for it that Linux has no name for.
    """
    if target.kind != "llvm":
        return ()
    built = tvm_target(target)
    architecture = architecture_named(str(built.attrs["mtriple"]).partition("-")[0])
    features = {str(each) for each in tvm.target.codegen.llvm_get_cpu_features(built)}
    if architecture not in UNNEEDED_FEATURES:
        return ()
    asked = {str(each).removeprefix("+") for each in built.attrs.get("mattr", ())}
    needed = {each for each in features if not each.startswith(_TILES) or each in asked}
    needed -= UNNEEDED_FEATURES[architecture]
    return tuple(sorted(_riscv(needed) if architecture == "riscv64" else _named(architecture, needed)))


def _named(architecture: str, features: set[str]) -> set[str]:
    names = {"x86_64": _X86, "aarch64": _AARCH64, "arm": _ARM}.get(architecture, MappingProxyType({}))
    _require_known(features - names.keys())
    found = {names[each] for each in features}
    if architecture == "aarch64" and "fullfp16" in features:
        found.add("fphp")
    return found


def _riscv(features: set[str]) -> set[str]:
    """Linux names extensions as LLVM does."""
    found = {each.removeprefix("experimental-") for each in features}
    _require_known({each for each in found if not _RISCV_EXTENSION.fullmatch(each)})
    vectors = {"v"} if any(each.startswith("zve") for each in found) else set()
    return {each for each in found if not _RISCV_IMPLIED.fullmatch(each)} | vectors


def _require_known(unknown: set[str]) -> None:
    if unknown:
        problem = f"it is not known what a device needs for LLVM's feature {min(unknown)!r}."
        fix = "Name another processor, or remove the feature from mattr; or build the bundle with --form objects or c."
        raise BadInput("target", problem, fix)
