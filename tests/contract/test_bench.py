"""What every bench keeps: the one in this host, and the one over a board's RPC session."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

from tests.gateway.board import KEY, Board
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.conversation.shared_memory import SharedMemory
from tunefarm_workers.correctness.element_type import numpy_type
from tunefarm_workers.correctness.inputs import InputArray
from tunefarm_workers.gateway.board_connection import BoardConnection
from tunefarm_workers.gateway.rpc_bench import RpcBench
from tunefarm_workers.session.device.bench import Bench
from tunefarm_workers.session.device.device_timer import DeviceTimer
from tunefarm_workers.session.device.local_bench import LocalBench

SHAPE = (3, 5)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with Board.running(tmp_path_factory.mktemp("board")) as board:
        yield board


@pytest.fixture(scope="module", params=["local", "board"])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "local":
        return LocalBench("cpu", 0)
    port = request.getfixturevalue("board").port
    return RpcBench(BoardConnection(host="127.0.0.1", port=port, key=KEY, session_s=60.0))


def tensor_of(dtype: str = "float32") -> TensorArgument:
    return TensorArgument(name="C", shape=SHAPE, dtype=dtype, is_output=True)


def array_of(dtype: str = "float32") -> InputArray:
    return (np.arange(15) % 2).reshape(SHAPE).astype(numpy_type(dtype))


def library_that_adds(number: int, folder: Path) -> bytes:
    source = te.placeholder(SHAPE, name="A")
    summed = te.compute(SHAPE, lambda i, j: source[i, j] + float(number), name="C")
    path = folder / f"adds-{number}.so"
    tvm.compile(te.create_prim_func([source, summed]), target="llvm").export_library(str(path))
    return path.read_bytes()


def library_that_never_ends(folder: Path) -> bytes:
    source = te.placeholder(SHAPE, name="A")
    step = te.reduce_axis((0, 1 << 40), name="k")
    summed = te.compute(SHAPE, lambda i, j: te.sum(te.sin(source[i, j] + step.astype("float32")), step), name="C")
    path = folder / "endless.so"
    tvm.compile(te.create_prim_func([source, summed]), target="llvm").export_library(str(path))
    return path.read_bytes()


@pytest.fixture(scope="module")
def kernels(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[int, object]:
    """Functions that add so much, from libraries whose descriptors have one name."""
    folder = tmp_path_factory.getbasetemp()
    held = {number: SharedMemory.holding("library", library_that_adds(number, folder)) for number in (1, 2)}
    return {number: bench.load(memory.descriptor) for number, memory in held.items()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_bench_keeps_arrays_until_cleared(bench: Bench, dtype: str) -> None:
    array = array_of(dtype)
    assert bench.place(array, tensor_of(dtype)).numpy().tobytes() == array.tobytes()
    output = bench.output(tensor_of(dtype))
    unwritten = output.contents().tobytes()
    assert unwritten != array.tobytes()
    output.fill(array)
    assert output.contents().tobytes() == array.tobytes()
    output.clear()
    assert output.contents().tobytes() == unwritten
    assert output.guards_hold()


def test_bench_runs_libraries_with_equal_names(bench: Bench, kernels: dict[int, object]) -> None:
    source, output = bench.place(array_of(), tensor_of()), bench.output(tensor_of())
    for number, module in kernels.items():
        output.clear()
        module["main"](source, output.tensor)
        bench.synchronize()
        assert output.contents().tobytes() == (array_of() + number).tobytes()
        assert output.guards_hold()
        assert DeviceTimer(bench, module, "main", [source, output.tensor]).seconds_per_call(3) > 0
    assert (bench.index, bench.on_processor) == (0, True)


def test_bench_survives_kernel_failure(bench: Bench, kernels: dict[int, object]) -> None:
    other = TensorArgument(name="C", shape=(7,), dtype="float32", is_output=True)
    with pytest.raises(Exception, match=r"(?i)shape|ndim") as failed:
        kernels[1]["main"](bench.empty(other), bench.empty(other))
    assert not bench.is_lost(failed.value)


def test_bench_is_lost_with_its_session(tmp_path: Path) -> None:
    with Board.running(tmp_path) as board:
        bench = RpcBench(BoardConnection(host="127.0.0.1", port=board.port, key=KEY, session_s=1.0))
        kernel = bench.load(SharedMemory.holding("library", library_that_never_ends(tmp_path)).descriptor)["main"]
        with pytest.raises(Exception, match="session has expired") as ended:
            kernel(bench.place(array_of(), tensor_of()), bench.output(tensor_of()).tensor)
    assert bench.is_lost(ended.value)


def test_bench_detects_writes_beside_output() -> None:
    output = LocalBench("cpu", 0).output(tensor_of())
    inside: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = np.from_dlpack(output.tensor)
    ctypes.memset(inside.ctypes.data, 1, inside.nbytes)
    assert output.guards_hold()
    assert (output.contents() == 1).all()
    for beside in (inside.ctypes.data + inside.nbytes, inside.ctypes.data - 1):
        ctypes.memset(beside, 0, 1)
        assert not output.guards_hold()
        output.clear()
        assert output.guards_hold()


@pytest.mark.parametrize("bench", ["board"], indirect=True, scope="module")
def test_bench_is_lost_with_its_board(bench: Bench, board: Board) -> None:
    board.kill()
    with pytest.raises(Exception, match=r".") as gone:
        bench.place(array_of(), tensor_of())
    assert bench.is_lost(gone.value)
