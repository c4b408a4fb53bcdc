"""Measures the peaks of this host's processor, in a child of its own.

Kernels: multiply-adds in registers on one core, in two shapes, and sums of data of several sizes on one core and on all
of them. The fastest sample counts, because load of the host only adds time. The reference kernels are no measure of
peaks: they have no schedule and are compiled for any processor.
"""

import time
from typing import Any, Final

import numpy as np
import tvm
from tvm import te

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.roofline import Bandwidth, DevicePeaks
from tunefarm_search.tvm.target import host_cpu
from tunefarm_workers.builder.scheduled_module import build_in_place
from tunefarm_workers.threads.thread_placement import place_threads

SIZES_BYTES: Final = (1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 25)
"""From the innermost cache to what exceeds most caches."""
_READ_BYTES: Final = 1 << 24
"""Read in one sample, so that the time to start threads does not count."""
_LANES: Final = 128
"""Floats that are summed side by side: as many as the registers of a processor without AVX-512 hold."""
_BLOCK_BYTES: Final = 4 * _LANES
_STEPS, _REPEATS = 64, 512
_TILES: Final = {"avx512f": ((24, 16), (12, 32)), "avx": ((12, 8), (6, 16)), "sse2": ((12, 4), (6, 8))}
"""Rows that are added to side by side, and the floats of each, by the widest vectors of a processor. A multiply-add
takes four cycles and two begin in each, so eight vectors suffice; without AVX-512 there are sixteen registers. Both
vectors of a row are multiplied with one number: without embedded broadcasts, loading one for each takes longer."""
_OTHER_TILES: Final = ((12, 8), (6, 16))
"""Twice as many vectors of 128 bits on ARM, where four begin in each cycle and there are 32 registers."""
_SAMPLES: Final = 12


def measure(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: measure, answer, and end. ``payload`` is the number of cores."""
    cores = int(payload)
    place_threads(cores)
    module = build_in_place(_kernels(), _target(cores))
    operations_per_s = _operations_per_s(module)
    bandwidths = tuple(_bandwidth(module["read"], size_bytes, cores) for size_bytes in SIZES_BYTES)
    # Samples of multiply-adds are so short that other load may take all of one moment.
    operations_per_s = max(operations_per_s, _operations_per_s(module))
    peaks = DevicePeaks(cores=cores, float32_operations_per_s=operations_per_s, bandwidths=bandwidths)
    channel.send(peaks.model_dump_json().encode())


def _target(cores: int) -> Any:
    return tvm.target.Target({"kind": "llvm", "mcpu": host_cpu(), "num-cores": cores})


def _operations_per_s(module: Any) -> float:
    found = []
    for rows, lanes in _tiles():
        arguments = [_tensor(lanes), _tensor(_STEPS, rows), _tensor(rows, lanes)]
        fastest_s = _fastest_s(module[_name(rows, lanes)], arguments)
        found.append(2 * _REPEATS * _STEPS * rows * lanes / fastest_s)
    return max(found)


def _bandwidth(kernel: Any, size_bytes: int, cores: int) -> Bandwidth:
    one = _bytes_per_s(kernel, size_bytes, 1)
    every = one if cores == 1 else max(one, _bytes_per_s(kernel, size_bytes, cores))
    return Bandwidth(size_bytes=size_bytes, one_thread_bytes_per_s=one, all_threads_bytes_per_s=every)


def _bytes_per_s(kernel: Any, size_bytes: int, threads: int) -> float:
    """Bytes per second that ``threads`` threads read, each a part of the data, again and again."""
    blocks = max(size_bytes // (threads * _BLOCK_BYTES), 1)
    repeats = max(_READ_BYTES // (threads * blocks * _BLOCK_BYTES), 1)
    arguments = [_tensor(threads, blocks, _LANES), _tensor(threads, repeats, _LANES)]
    return threads * blocks * repeats * _BLOCK_BYTES / _fastest_s(kernel, arguments)


def _fastest_s(kernel: Any, arguments: list[Any]) -> float:
    kernel(*arguments)
    return min(_call_s(kernel, arguments) for _ in range(_SAMPLES))


def _call_s(kernel: Any, arguments: list[Any]) -> float:
    began_s = time.perf_counter()
    kernel(*arguments)
    return time.perf_counter() - began_s


def _tensor(*shape: int) -> Any:
    return tvm.runtime.tensor(np.zeros(shape, np.float32))


def _tiles() -> tuple[tuple[int, int], ...]:
    """How many rows the multiply-adds have, and the floats of each."""
    has = tvm.target.codegen.target_has_features
    return next((tiles for feature, tiles in _TILES.items() if has([feature], _target(1))), _OTHER_TILES)


def _name(rows: int, lanes: int) -> str:
    return f"multiply_add_{rows}_{lanes}"


def _kernels() -> tvm.IRModule:
    functions = {**{_name(*tile): _multiply_add(*tile) for tile in _tiles()}, "read": _read()}
    return tvm.IRModule({name: each.with_attr("global_symbol", name) for name, each in functions.items()})


def _multiply_add(rows: int, lanes: int) -> Any:
    left = te.placeholder((lanes,), name="A")
    right = te.placeholder((_STEPS, rows), name="B")
    again, step = te.reduce_axis((0, _REPEATS), name="r"), te.reduce_axis((0, _STEPS), name="k")
    out = te.compute((rows, lanes), lambda j, i: te.sum(left[i] * right[step, j], axis=[again, step]), name="C")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([left, right, out]).with_attr("tirx.noalias", True))
    block = schedule.get_sblock("C")
    vector, lane, outer, inner = schedule.get_loops(block)
    schedule.reorder(outer, inner, vector, lane)
    written = schedule.cache_write(block, 0, "local")
    schedule.vectorize(lane)
    schedule.unroll(vector)
    _in_registers(schedule, schedule.decompose_reduction(block, outer))
    _in_registers(schedule, written)
    return schedule.mod["main"]


def _in_registers(schedule: Any, block: Any) -> None:
    *_, vector, lane = schedule.get_loops(block)
    schedule.vectorize(lane)
    schedule.unroll(vector)


def _read() -> Any:
    threads, repeats, blocks = te.var("threads"), te.var("repeats"), te.var("blocks")
    source = te.placeholder((threads, blocks, _LANES), name="A")
    step = te.reduce_axis((0, blocks), name="k")
    total = te.compute((threads, repeats, _LANES), lambda t, _, i: te.sum(source[t, step, i], axis=step), name="B")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([source, total]).with_attr("tirx.noalias", True))
    block = schedule.get_sblock("B")
    thread, repeat, lane, inner = schedule.get_loops(block)
    schedule.reorder(thread, repeat, inner, lane)
    written = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(written, repeat)
    schedule.parallel(thread)
    schedule.vectorize(lane)
    schedule.vectorize(schedule.get_loops(written)[-1])
    schedule.vectorize(schedule.get_loops(schedule.decompose_reduction(block, inner))[-1])
    return schedule.mod["main"]
