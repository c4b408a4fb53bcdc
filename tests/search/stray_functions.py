"""Functions that access memory out of bounds, as a schedule or a user's module may."""

from collections.abc import Callable
from functools import partial

import tvm
import tvm.script

Made = Callable[[], tvm.IRModule]
"""TVM takes a tenth of a second to parse a module if many are loaded, so a test creates only the modules it needs."""

_FUNCTION = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v, 0:8])
                T.writes(B[v, 0:8])
"""
_STRIDED = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8, 8), "int32", strides=(100, 1))
        B = T.match_buffer(b, (8, 8), "int32")
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
"""
_SHIFTED = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8, 8), "int32")
        B = T.match_buffer(b, (8, 8), "int32", elem_offset=64, offset_factor=1)
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
"""
_OF_A_WARP = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 16), "float16"), B: T.Buffer((16,), "float32")):
        block = T.launch_thread("blockIdx.x", 1)
        lane = T.launch_thread("threadIdx.x", 32)
        rows = T.alloc_buffer((32, 24), "float16", scope="shared")
        part = T.alloc_buffer((2, 256), "float16", scope="wmma.matrix_a")
        rows[lane, 0] = A[lane, 0]
        T.tvm_load_matrix_sync(
            part.data, 16, 16, 16, FRAGMENT,
            T.tvm_access_ptr(T.type_annotation("float16"), rows.data, OFFSET, 384, 1), 24, "row_major"
        )
"""


def of_a_warp(fragment: str, offset: str) -> tvm.IRModule:
    """Loads a matrix from the position ``offset`` of 32 rows of 24 elements to one of two fragments."""
    return tvm.script.from_source(_OF_A_WARP.replace("FRAGMENT", fragment).replace("OFFSET", offset))


def with_body(*lines: str) -> tvm.IRModule:
    """A function from ``A`` to ``B``, of eight rows of eight integers; ``v`` is a row in its body."""
    return tvm.script.from_source(_FUNCTION + "".join(f"                {line}\n" for line in lines))


def outside() -> dict[str, tuple[Made, str]]:
    """Functions that always leave a buffer, each with the name of that buffer."""
    return {
        "reads one element beyond": (partial(with_body, "for j in range(8):", "    B[v, j] = A[v, j + 1]"), "A"),
        "reads far beyond": (partial(with_body, "for j in range(8):", "    B[v, j] = A[v + 5000, j]"), "A"),
        "writes far beyond": (partial(with_body, "for j in range(8):", "    B[v, j + 9000] = A[v, j]"), "B"),
        "reads before the first": (partial(with_body, "for j in range(8):", "    B[v, j] = A[v - 1, j]"), "A"),
        "writes in a branch": (
            partial(with_body, "for j in range(8):", "    if j > 5:", "        B[v + 7, j] = A[v, j]"),
            "B",
        ),
        "reads where it chooses to": (
            partial(with_body, "for j in range(8):", "    B[v, j] = T.if_then_else(v * 8 + j > 60, A[v + 1, j], 0)"),
            "A",
        ),
        "reads beyond and uses nothing of it": (
            partial(with_body, "for j in range(8):", "    B[v, j] = A[v, j] + T.if_then_else(A[v, j + 1] == -7, 1, 0)"),
            "A",
        ),
        "guards with a condition that reads as well": (
            partial(with_body, "for j in range(8):", "    if v < 7 and A[v + 1, j] > 0:", "        B[v, j] = A[v, j]"),
            "A",
        ),
        "matches a buffer within a row": (
            partial(
                with_body,
                'C = T.match_buffer(A[v, 0:8], (8,), "int32", offset_factor=1)',
                "for j in range(8):",
                "    B[v, j] = C[j + 3000]",
            ),
            "A",
        ),
        "declares a longer view": (
            partial(
                with_body,
                'C = T.decl_buffer((100000,), "int32", data=A.data)',
                "for j in range(8):",
                "    B[v, j] = C[j + 5000]",
            ),
            "C",
        ),
        "declares a view that begins later": (
            partial(
                with_body,
                'C = T.decl_buffer((8,), "int32", data=A.data, elem_offset=4000)',
                "for j in range(8):",
                "    B[v, j] = C[j]",
            ),
            "C",
        ),
        "loads vectors": (partial(with_body, "B[v, T.Ramp(0, 1, 8)] = A[v, T.Ramp(4, 1, 8)]"), "A"),
        "loads with a mask": (
            partial(
                with_body,
                'B[v, T.Ramp(0, 1, 8)] = T.masked_load("int32x8", A, v + 40, T.Ramp(0, 1, 8), '
                "T.Broadcast(T.bool(True), 8))",
            ),
            "A",
        ),
        "has strides that its caller does not know": (partial(tvm.script.from_source, _STRIDED), "A"),
        "begins where its caller does not know": (partial(tvm.script.from_source, _SHIFTED), "B"),
    }


def opaque() -> dict[str, tuple[Made, str]]:
    """Functions whose accesses cannot be analysed, each with part of the reason."""
    pointer = 'T.tvm_access_ptr(T.type_annotation("int32"), A.data, 100000, 8, 1)'
    return {
        "makes a buffer of a pointer": (
            partial(
                with_body,
                f'C = T.decl_buffer((8,), "int32", data={pointer})',
                "for j in range(8):",
                "    B[v, j] = C[j]",
            ),
            "tvm_access_ptr",
        ),
        "hands a pointer out": (
            partial(with_body, "for j in range(8):", "    B[v, j] = A[v, j]", f"T.evaluate({pointer})"),
            "tvm_access_ptr",
        ),
    }


def open_at_run_time() -> dict[str, tuple[Made, bool]]:
    """Functions whose accesses depend on data, each with whether they leave a buffer at run time.

    ``A`` holds integers from 0 to 7, because its elements are indices of rows.
    """
    return {
        "looks rows up": (partial(with_body, "for j in range(8):", "    B[v, j] = A[A[v, j], j]"), False),
        "looks every other row up": (partial(with_body, "for j in range(8):", "    B[v, j] = A[A[v, j] * 2, j]"), True),
        "looks the row before up": (partial(with_body, "for j in range(8):", "    B[v, j] = A[A[v, j] - 5, j]"), True),
        "looks every other row up and uses nothing of it": (
            partial(
                with_body, "for j in range(8):", "    B[v, j] = A[v, j] + T.if_then_else(A[A[v, j] * 2, j] == -7, 1, 0)"
            ),
            True,
        ),
        "writes where it is told to": (
            partial(
                with_body, "for j in range(8):", "    B[v, j] = 0", "for j in range(8):", "    B[A[v, j] * 2, j] = 1"
            ),
            True,
        ),
        "counts with a loop of its own": (
            partial(
                with_body,
                'n = T.alloc_buffer((1,), "int32")',
                "for j in range(8):",
                "    B[v, j] = 0",
                "n[0] = 0",
                "while n[0] < 900:",
                "    B[v, n[0] % 8] = A[v, n[0]]",
                "    n[0] = n[0] + 1",
            ),
            True,
        ),
        "counts within its row": (
            partial(
                with_body,
                'n = T.alloc_buffer((1,), "int32")',
                "n[0] = 0",
                "while n[0] < 8:",
                "    B[v, n[0]] = A[v, n[0]]",
                "    n[0] = n[0] + 1",
            ),
            False,
        ),
    }
