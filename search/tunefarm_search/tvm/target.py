"""Conversion of a user's target to canonical form."""

import difflib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.target_attributes import require_permitted_target
from tunefarm_search.tvm.tile_registers import are_granted
from tunefarm_search.tvm.trace import plain

FLOAT_BYTES = 4
CPU_KINDS = frozenset({"llvm", "c"})
WITHOUT_EFFECT_ON_CODE = frozenset({"tag", "model", "device", "from_device", "target_device_type"})
_COMPUTE_HALVES = frozenset({"znver1", "znver4"})
"""LLVM's names of processors whose vector units are half as wide as their registers."""
_LOADS_HALVES = frozenset({"znver1"})
"""LLVM's names of processors that load half a register at a time."""
_WITHOUT_TILES, _WITH_TILES = "icelake-server", "sapphirerapids"
_COMPUTE_TWO = frozenset({_WITH_TILES, "emeraldrapids", "graniterapids", "graniterapids-d"})
"""LLVM's names of server processors of one line that multiply two registers of AVX-512 in a cycle."""
_X86 = frozenset({"x86_64", "i386", "i486", "i586", "i686"})
_MIN_UNIT_BYTES = 32
"""Processors with shorter registers compute two of them at the same time."""
FEW_VECTOR_REGISTERS = 16
TARGETS_AT_ONCE = 64
"""Of which answers are kept: LLVM lists 200 features for each question, and schedules of a model ask thousands."""
CPU_FACTS = Path("/proc/cpuinfo")
_FLAGS_WITH_TILES = """
    abm amx_bf16 amx_int8 amx_tile avx avx2 avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2 avx512_vnni
    avx512_vpopcntdq avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl avx_vnni bmi1 bmi2 cx16 f16c
    fma gfni lahf_lm movbe pni popcnt sse4_1 sse4_2 ssse3
"""
"""What Linux calls the instruction sets of Sapphire Rapids that LLVM uses, and its tiles, which older ones lack."""
INSTRUCTION_SETS = (
    *("sse", "ssse", "avx", "amx", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe", "gfni", "sha", "vaes", "xop"),
    *("vpclmulqdq", "neon", "sve", "sme", "dotprod", "i8mm", "bf16", "fullfp16"),
)


@dataclass(frozen=True)
class CanonicalTarget:
    """A target, and notes for the user on what was filled in."""

    target: Target
    notes: tuple[str, ...]


def canonical_target(
    given: str | Mapping[str, object], default_num_cores: int | None = None, *, tuned: bool = False
) -> CanonicalTarget:
    """Convert a target to canonical form.

    Args:
        given: JSON text of an object, the object itself, or the name of a tag or kind that TVM knows.
        tuned: whether its kind must be one that a service tunes for.
        default_num_cores: threads of a CPU target without num-cores; None uses the CPUs this process may use.

    Raises:
        BadInput: TVM or LLVM does not know a kind, attribute or processor, or it is not allowed from outside.
    """
    built = _built(given)
    attributes = _attributes(built)
    require_permitted_target(attributes, tuned=tuned)
    kind = str(attributes["kind"])
    notes: list[str] = []
    if kind == "llvm":
        attributes.setdefault("mtriple", str(tvm.target.codegen.llvm_get_system_triple()))
        _check_processor(attributes)
        if "mcpu" not in attributes:
            notes.append("mcpu is not set: code is generated for any processor of this architecture")
    cores = 0
    if kind in CPU_KINDS:
        cores = _fill_cores(attributes, default_num_cores, notes)
    return CanonicalTarget(Target(canonical=canonical_json(attributes), kind=kind, num_cores=cores), tuple(notes))


def tvm_target(target: Target) -> Any:
    """TVM's object for a canonical target."""
    return tvm.target.Target(json.loads(target.canonical))


@lru_cache(maxsize=TARGETS_AT_ONCE)
def vector_bytes(target: Target) -> int:
    """Bytes of a vector register of a CPU that LLVM builds for."""
    given = json.loads(target.canonical)
    if given.get("vector-width") or not _is_x86(given):
        return max(8, int(tvm.target.codegen.llvm_get_vector_width(tvm_target(target))) // 8)
    # TVM answers 512 bits for every processor of this architecture.
    features = _instruction_sets(tvm_target(target))
    return 64 if "avx512f" in features else 32 if "avx" in features else 16


def vector_registers(target: Target) -> int:
    """How many vector registers a CPU has that LLVM builds for."""
    given = json.loads(target.canonical)
    has_sixteen = _is_x86(given) or str(given["mtriple"]).startswith("arm")
    return 16 if has_sixteen and vector_bytes(target) < 64 else 32


def has_few_vector_registers(target: Target) -> bool:
    """Whether a tile of 7 rows of a product has no room for two vectors of each row."""
    return vector_registers(target) <= FEW_VECTOR_REGISTERS


def converted_halves(target: Target) -> frozenset[str]:
    """The types of 16 bits that a CPU makes float32 of without calling a function."""
    if target.kind != "llvm":
        return frozenset()
    given = json.loads(target.canonical)
    architecture = architecture_named(str(given["mtriple"]).split("-")[0])
    has_float16 = architecture == "aarch64" or "f16c" in _instruction_sets(tvm_target(target))
    return frozenset({"bfloat16", *(("float16",) if has_float16 else ())})


def vector_unit_bytes(target: Target) -> int:
    """Bytes of vectors that a CPU computes in half a cycle: shorter ones take as long, longer ones in proportion."""
    register = vector_bytes(target)
    computes_halves = json.loads(target.canonical).get("mcpu") in _COMPUTE_HALVES
    return register // 2 if computes_halves else max(register, _MIN_UNIT_BYTES)


def computes_two_registers(target: Target) -> bool:
    """Whether a CPU multiplies two registers of AVX-512 in a cycle, as Sapphire Rapids does."""
    return json.loads(target.canonical).get("mcpu") in _COMPUTE_TWO


def vector_load_bytes(target: Target) -> int:
    """Bytes that one load of a CPU brings into a vector register."""
    register = vector_bytes(target)
    return register // 2 if json.loads(target.canonical).get("mcpu") in _LOADS_HALVES else register


def _is_x86(given: Mapping[str, Any]) -> bool:
    return architecture_named(str(given["mtriple"]).split("-")[0]) in _X86


def host_target(num_cores: int | None = None) -> Target:
    """The CPU this process runs on, as a canonical target."""
    return canonical_target({"kind": "llvm", "mcpu": host_cpu()}, num_cores).target


def host_cpu() -> str:
    """LLVM's name of the CPU this process runs on.

    LLVM goes by the number of the model. A virtual machine may have that of an older one, with all instructions of the
    processor below: then they tell what it is. Where the kernel denies the registers of a matrix unit, it is the last
    processor of the line that had none.
    """
    named = _named_cpu()
    return named if not _has_tiles(named) or are_granted() else _WITHOUT_TILES


def _named_cpu() -> str:
    named = str(tvm.target.codegen.llvm_get_system_cpu())
    try:
        with CPU_FACTS.open(encoding="utf-8") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return named
    if not set(_FLAGS_WITH_TILES.split()) <= set(flags.split()):
        return named
    return named if _has_tiles(named) else _WITH_TILES


def _has_tiles(processor: str) -> bool:
    return "amx-tile" in _instruction_sets(tvm.target.Target({"kind": "llvm", "mcpu": processor}))


def other_architecture(target: Target) -> str | None:
    """That a CPU target that LLVM builds for has another architecture than this host, or None."""
    machine, architecture = platform.machine(), str(json.loads(target.canonical)["mtriple"]).split("-")[0]
    if architecture_named(machine) == architecture_named(architecture):
        return None
    return f"the target is for {architecture} and this host is {machine}"


def reason_it_cannot_run_here(target: Target) -> str | None:
    """Why code for this target cannot run on this host, or None if it may."""
    if target.kind == "c":
        return "candidates are built and run here, and targets of the kind c give the text of a program"
    if target.kind != "llvm":
        if tvm.runtime.device(target.kind, 0).exist:
            return None
        return f"this host has no device of the kind {target.kind}"
    elsewhere = other_architecture(target)
    if elsewhere is not None:
        return elsewhere
    missing = sorted(_instruction_sets(tvm_target(target)) - _instruction_sets(tvm_target(host_target(1))))
    return f"this host's processor lacks {', '.join(missing[:6])}" if missing else None


def _built(given: str | Mapping[str, object]) -> Any:
    value: object = given
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            value = json.loads(given)
        except json.JSONDecodeError as error:
            raise BadInput("target", f"is not valid JSON: {error}.", 'Write, say, {"kind": "llvm"}.') from error
    try:
        return tvm.target.Target(value if isinstance(value, str) else dict(value))  # type: ignore[call-overload]
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0].split(" Target creation")[0]
        raise BadInput("target", f"TVM refuses it: {reason}", "Correct or remove what it names.") from error


def _attributes(built: Any) -> dict[str, Any]:
    """TVM's exported attributes, without those that it derives again and those that do not affect the code."""
    exported: dict[str, Any] = plain(built.export())
    kept = {k: v for k, v in exported.items() if k not in WITHOUT_EFFECT_ON_CODE and not k.startswith("feature.")}
    if isinstance(kept.get("host"), dict):
        kept["host"] = {k: v for k, v in kept["host"].items() if k not in WITHOUT_EFFECT_ON_CODE}
    if "mattr" in kept:
        kept["mattr"] = sorted(kept["mattr"])
    without_keys = {k: v for k, v in kept.items() if k != "keys"}
    derived = plain(tvm.target.Target(without_keys).export()).get("keys")
    return without_keys if sorted(derived or []) == sorted(kept.get("keys") or []) else kept


def _check_processor(attributes: Mapping[str, Any]) -> None:
    triple = str(attributes["mtriple"])
    if triple.split("-")[0] not in {str(name) for name in tvm.target.codegen.llvm_get_targets()} | {"arm64", "i686"}:
        raise BadInput("target", f"LLVM has no architecture for mtriple {triple!r}.", "Write, say, aarch64-linux-gnu.")
    processor = attributes.get("mcpu")
    if processor is None:
        return
    known = [str(name) for name in tvm.target.codegen.llvm_get_cpu_archlist(_only_triple(triple))]
    if processor not in known:
        like = ", ".join(sorted(known, key=lambda name: _difference(name, str(processor)))[:5])
        raise BadInput("target", f"mcpu {processor!r} is unknown to LLVM for {triple}.", f"Did you mean {like}?")


def _only_triple(triple: str) -> Any:
    return tvm.target.Target({"kind": "llvm", "mtriple": triple, "num-cores": 1})


def _difference(known: str, asked: str) -> float:
    return -difflib.SequenceMatcher(None, known, asked.lower()).ratio()


def _fill_cores(attributes: dict[str, Any], default_num_cores: int | None, notes: list[str]) -> int:
    if "num-cores" not in attributes:
        cores = default_num_cores if default_num_cores is not None else usable_processors()
        attributes["num-cores"] = cores
        notes.append(f"num-cores is not set: {cores} is taken")
    cores = int(attributes["num-cores"])
    if cores < 1:
        raise BadInput("target", f"num-cores is {cores}.", "Give the number of threads a kernel may use, 1 or more.")
    return cores


def _instruction_sets(target: Any) -> set[str]:
    """Features of the processor that are instructions; the others are only tuning hints."""
    features = {str(name) for name in tvm.target.codegen.llvm_get_cpu_features(target)}
    return {name for name in features if name.startswith(INSTRUCTION_SETS)}
