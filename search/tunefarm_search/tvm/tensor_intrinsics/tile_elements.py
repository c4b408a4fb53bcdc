"""What the matrix unit of Intel's AMX multiplies: 8-bit integers, and bfloat16."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.target import TARGETS_AT_ONCE, tvm_target
from tunefarm_search.tvm.tensor_intrinsics.dot_products import PRODUCTS


@dataclass(frozen=True)
class TileElements:
    """What the unit multiplies and adds.

    Attributes:
        name: in the names of intrinsics.
        feature: LLVM's name of the instruction set.
        activation, weight, sums: element types.
        products: of a word, which one instruction adds to each sum.
        multiply: LLVM's name of the instruction.
    """

    name: str
    feature: str
    activation: str
    weight: str
    sums: str
    products: int
    multiply: str


INTEGERS: Final = TileElements("", "amx-int8", "uint8", "int8", "int32", PRODUCTS, "llvm.x86.tdpbusd")
BFLOAT16: Final = TileElements(".bf16", "amx-bf16", "bfloat16", "bfloat16", "float32", 2, "llvm.x86.tdpbf16ps")
TILE_ELEMENTS: Final = (INTEGERS, BFLOAT16)


@lru_cache(maxsize=TARGETS_AT_ONCE)
def tile_elements_of(target: Target) -> tuple[TileElements, ...]:
    """What code for a target may multiply with the unit; nothing if the processor has none."""
    if target.kind != "llvm":
        return ()
    features = {str(name) for name in tvm.target.codegen.llvm_get_cpu_features(tvm_target(target))}
    return tuple(each for each in TILE_ELEMENTS if each.feature in features)
