"""The least work of a function, and the latency below which a timing is implausible."""

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from tests.search.conftest import te_workload
from tests.workers import workloads
from tunefarm_schemas.tuning.least_work import CALL_S, LeastWork, disbelief, least_latency_s
from tunefarm_search.features.least_work import least_work
from tunefarm_search.replay.replay_table import ReplayTable
from tunefarm_search.tvm.serialization import load_json

X86 = '{"kind":"llvm","mtriple":"x86_64-linux-gnu","num-cores":2}'
ARM = '{"kind":"llvm","mtriple":"aarch64-linux-gnu","num-cores":2}'
CARD = '{"kind":"cuda"}'


def function_of(*tensors: object) -> tvm.IRModule:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors))})


def test_least_work_counts_each_multiply_add() -> None:
    assert least_work(workloads.matmul(64)) == LeastWork(
        written_bytes=64 * 64 * 4, multiply_adds=64**3, multiply_add_bits=32
    )
    assert least_work(workloads.matmul(64, "float16", "float32")).multiply_add_bits == 16


@pytest.mark.parametrize("name", ["C2D", "T2D", "DIL", "CAP"])
def test_least_work_excludes_padding(name: str) -> None:
    assert least_work(load_json(te_workload(name).module_json)).multiply_adds == 0


def test_least_work_excludes_integer_sums() -> None:
    assert least_work(workloads.matmul(64, "int32")).multiply_adds == 0


def test_least_work_excludes_shareable_sums() -> None:
    row = te.placeholder((64, 32), name="A")
    axis = te.reduce_axis((0, 32), name="k")
    same = te.compute((64, 64), lambda i, j: te.sum(row[i, axis], axis=axis), name="C")
    assert least_work(function_of(row, same)).multiply_adds == 0
    line = te.placeholder((128,), name="A")
    along = te.compute((64, 64), lambda i, j: te.sum(line[i + j], axis=axis), name="C")
    assert least_work(function_of(line, along)).multiply_adds == 0


def test_least_work_counts_only_certain_writes() -> None:
    rows = te.placeholder((8,), "int32", name="I")
    values = te.placeholder((8, 4), name="A")
    gathered = te.compute((8, 4), lambda i, j: values[rows[i], j], name="B")
    assert least_work(function_of(rows, values, gathered)).written_bytes == 8 * 4 * 4
    script = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(I: T.Buffer((8,), "int32"), B: T.Buffer((1024, 1024), "float32")):
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[I[v], 0] = T.float32(1)
"""
    assert least_work(tvm.script.from_source(script)).written_bytes == 0
    kept = script.replace("B[I[v], 0] = T.float32(1)", "B[v, 0] = B[v, 0]")
    assert least_work(tvm.script.from_source(kept)).written_bytes == 0
    guarded = script.replace("B[I[v], 0]", "B[v, 0]").replace(
        "        for i in range(8):\n", "        for i in range(8):\n          if i > 8:\n"
    )
    assert least_work(tvm.script.from_source(guarded)).written_bytes == 0


@pytest.mark.parametrize("table", ["small_table", "pool_table", "convolution_table", "transposed_convolution_table"])
def test_recorded_latencies_are_plausible(table: str, request: pytest.FixtureRequest) -> None:
    recorded: ReplayTable = request.getfixturevalue(table)
    work = least_work(load_json(recorded.module_json))
    least_s = least_latency_s(work, recorded.target.canonical, recorded.target.num_cores)
    assert CALL_S <= least_s <= recorded.best_latency_s / 2
    assert all(disbelief(trial.latency_s, least_s) is None for trial in recorded.trials if trial.latency_s is not None)


def test_shortest_known_call_is_plausible() -> None:
    assert disbelief(4.3e-9, least_latency_s(LeastWork(written_bytes=4), X86, 1)) is None


@given(
    work=st.builds(
        LeastWork,
        written_bytes=st.integers(0, 1 << 40),
        multiply_adds=st.integers(0, 1 << 50),
        multiply_add_bits=st.sampled_from([4, 8, 16, 32, 64]),
    ),
    cores=st.integers(1, 512),
)
def test_least_latency_is_below_fastest_cores(work: LeastWork, cores: int) -> None:
    """A core of 6 GHz that stores 64 bytes per cycle, with two 512-bit units or the largest matrix unit."""
    in_a_cycle = {64: 16, 32: 32}.get(work.multiply_add_bits, 1024 * 16 // work.multiply_add_bits)
    takes_s = max(work.written_bytes / (64 * 6e9 * cores), work.multiply_adds / (in_a_cycle * 6e9 * cores), 4e-9)
    assert least_latency_s(work, X86, cores) < takes_s
    assert least_latency_s(work, ARM, cores) <= least_latency_s(work, X86, cores)
    assert least_latency_s(work, CARD, cores) <= least_latency_s(work, ARM, 512)


def test_implausible_latency_is_reported_with_bound() -> None:
    failure = disbelief(3e-9, least_latency_s(least_work(workloads.matmul(128)), X86, 2))
    assert failure is not None
    assert "3 ns a call" in failure.message
    assert "2.34e+03 ns at least" in failure.message
