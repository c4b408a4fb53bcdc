"""Instructions that add four products of 8-bit integers to a 32-bit sum, as tensor intrinsics of TVM.

Each intrinsic has the same shape: 16 sums of four products. The four activations are shared, and the weights of the 16
sums are contiguous. Processors with shorter registers take several instructions for it.

TVM's own intrinsic for AVX-512 VNNI gives the instruction vectors of a type that LLVM 22 rejects, and its intrinsic for
AVX-512 without VNNI saturates sums of two products at 16 bits: neither is used here.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import tvm
from tvm.s_tir import TensorIntrin

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.target import TARGETS_AT_ONCE, tvm_target

SUMS: Final = 16
"""Sums of one intrinsic: neighbouring output channels."""
PRODUCTS: Final = 4
"""Products added to each sum: neighbouring input channels."""


@dataclass(frozen=True)
class DotProduct:
    """A tensor intrinsic and what a processor needs for it.

    Attributes:
        name: of the intrinsic, in traces.
        feature: LLVM's name of the instruction set that has the instruction.
        activation: the type of the activations; weights are int8.
        instruction: LLVM's name of the instruction.
        lanes: sums of one instruction.
        max_tile: intrinsics whose sums fit into registers at the same time.
    """

    name: str
    feature: str
    activation: Literal["int8", "uint8"]
    instruction: str
    lanes: int
    max_tile: int


DOT_PRODUCTS: Final = (
    DotProduct(
        "tunefarm.dot_16x4.avx512vnni", "avx512vnni", "uint8", "llvm.x86.avx512.vpdpbusd.512", lanes=16, max_tile=16
    ),
    DotProduct("tunefarm.dot_16x4.avxvnni", "avxvnni", "uint8", "llvm.x86.avx512.vpdpbusd.256", lanes=8, max_tile=6),
    DotProduct("tunefarm.dot_16x4.dotprod", "dotprod", "int8", "llvm.aarch64.neon.sdot", lanes=4, max_tile=6),
)
"""In order of preference."""


@lru_cache(maxsize=TARGETS_AT_ONCE)
def dot_product_of(target: Target) -> DotProduct | None:
    """The intrinsic to use on a target; None if the processor has no such instruction."""
    if target.kind != "llvm":
        return None
    features = {str(name) for name in tvm.target.codegen.llvm_get_cpu_features(tvm_target(target))}
    return next((each for each in DOT_PRODUCTS if each.feature in features), None)


def is_dot_product(name: str) -> bool:
    """Whether it is the name of one of these intrinsics."""
    return any(each.name == name for each in DOT_PRODUCTS)


def register_dot_products() -> None:
    """Make the intrinsics known to TVM. Idempotent."""
    for each in DOT_PRODUCTS:
        if TensorIntrin.get(each.name, allow_missing=True) is None:
            TensorIntrin.register(each.name, _description(each), _implementation(each))


_BUFFERS: Final = """
@T.prim_func(s_tir=True)
def intrinsic(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "{activation}", offset_factor=1)
    B = T.match_buffer(b, (16, 4), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
"""
_LOOPS: Final = """
        for i in T.serial(0, 16):
            for k in T.serial(0, 4):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")
"""
_INSTRUCTION: Final = """
        C[T.ramp(T.int32({first}), 1, {lanes})] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("{instruction}"),
            C.vload([{first}], dtype="int32x{lanes}"),
            T.reinterpret(
                T.broadcast(T.reinterpret(A.vload([0], "{activation}x4"), dtype="int32"), {lanes}),
                dtype="{activation}x{bytes}",
            ),
            B.vload([{first}, 0], dtype="int8x{bytes}"),
            dtype="int32x{lanes}",
        )
"""


def _description(product: DotProduct) -> Any:
    return _parsed(_BUFFERS + _LOOPS, product)


def _implementation(product: DotProduct) -> Any:
    steps = [
        _INSTRUCTION.replace("{first}", str(first)).replace("{bytes}", str(product.lanes * PRODUCTS))
        for first in range(0, SUMS, product.lanes)
    ]
    return _parsed(_BUFFERS + "".join(steps), product)


def _parsed(text: str, product: DotProduct) -> Any:
    values = {"activation": product.activation, "instruction": product.instruction, "lanes": product.lanes}
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return tvm.script.from_source(text.strip() + "\n")
