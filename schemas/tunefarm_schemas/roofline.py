"""The roofline of a function on a device: how long its operations and its data take at the device's measured peaks."""

from typing import Final, Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen

Bound = Literal["compute", "memory"]
FLOAT32: Final = "float32"


class Work(Frozen):
    """What a call of a function moves, and the type that it computes with.

    ``moved_bytes`` counts each element of an argument that is certainly read or written once. ``dtype`` is empty if
    the function computes with several types.
    """

    moved_bytes: int = Field(ge=0)
    dtype: str


class Bandwidth(Frozen):
    """Bytes per second that a device reads of data of ``size_bytes``, with one thread and with all of them."""

    size_bytes: int = Field(gt=0)
    one_thread_bytes_per_s: float = Field(ge=1, allow_inf_nan=False)
    all_threads_bytes_per_s: float = Field(ge=1, allow_inf_nan=False)


class DevicePeaks(Frozen):
    """The fastest that a processor was seen to compute and to read.

    ``float32_operations_per_s`` are of one core, where a multiply-add counts as two. ``bandwidths`` are of data of
    several sizes, the smallest first: what fits into a cache is read faster.
    """

    cores: int = Field(ge=1)
    float32_operations_per_s: float = Field(ge=1, allow_inf_nan=False)
    bandwidths: tuple[Bandwidth, ...] = Field(min_length=1)

    def operations_per_s(self, threads: int) -> float:
        """Peak of ``threads`` threads, or of all cores if there are fewer."""
        return self.float32_operations_per_s * min(max(threads, 1), self.cores)

    def bytes_per_s(self, size_bytes: int, threads: int, *, cold_cache: bool = False) -> float:
        """Peak at which ``threads`` threads read ``size_bytes``, which are in no cache if ``cold_cache``.

        It is the peak of the nearest smaller size that was measured, which may only be higher.
        """
        fitting = [each for each in self.bandwidths if each.size_bytes <= size_bytes] or [self.bandwidths[0]]
        slower = self.bandwidths[-1:] if cold_cache else self.bandwidths[self.bandwidths.index(fitting[-1]) :]
        return max(_of_threads(each, threads, self.cores) for each in slower)


class Roofline(Frozen):
    """Seconds of a call that computes at the device's peak, ``compute_s``, or moves its data at the peak, ``memory_s``.

    No schedule is faster than ``latency_s``, the longer of both, unless it omits operations that the function has.
    ``bound`` says which of both it is. ``moved_bytes`` are those of the call.
    """

    latency_s: float = Field(ge=0)
    bound: Bound
    compute_s: float = Field(ge=0)
    memory_s: float = Field(ge=0)
    moved_bytes: int = Field(ge=0)


def roofline_of(
    operations: float, work: Work | None, peaks: DevicePeaks | None, threads: int, *, cold_cache: bool = False
) -> Roofline | None:
    """The roofline of a call with ``operations`` in floating point on ``threads`` threads; None if a peak is unknown.

    Peaks are known for 32-bit floats only.
    """
    if work is None or peaks is None or work.dtype != FLOAT32:
        return None
    compute_s = operations / peaks.operations_per_s(threads)
    memory_s = work.moved_bytes / peaks.bytes_per_s(work.moved_bytes, threads, cold_cache=cold_cache)
    return Roofline(
        latency_s=max(compute_s, memory_s),
        bound="compute" if compute_s > memory_s else "memory",
        compute_s=compute_s,
        memory_s=memory_s,
        moved_bytes=work.moved_bytes,
    )


def _of_threads(bandwidth: Bandwidth, threads: int, cores: int) -> float:
    one, every = bandwidth.one_thread_bytes_per_s, bandwidth.all_threads_bytes_per_s
    return max(one, every) if threads >= cores else min(one * max(threads, 1), max(one, every))
