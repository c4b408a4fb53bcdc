"""The processor parameters of the analytical cost model."""

from dataclasses import dataclass, field, replace

from tunefarm_search.tvm.target import FEW_VECTOR_REGISTERS


@dataclass(frozen=True)
class CycleCosts:
    """The constants of the analytical cost model, in cycles of one core unless stated otherwise.

    Attributes:
        bytes_multiplied_per_cycle: throughput of the vector units.
        loads_per_cycle: vector loads from the L1 cache.
        latency: latency of a multiplication that depends on the previous one.
        iteration: cost of each repetition of a body, for its jump and its pointers, where arithmetic does not hide it.
        not_overlapped: share of the shorter of two kinds of work that does not hide behind the longer.
        spilled_result: cost per result that does not fit into the registers.
        result_while_spilling: cost per result, if there are more than registers.
        long_body: operations above which LLVM schedules a body badly and spills early loads.
        operation_of_long_body: cost per operation of a body of twice that length.
        uneven_vector: how many times longer LLVM's code takes for vectors of more than a register that do not fill
            registers, such as 28 floats, or that are no power of two, such as 48: it takes them apart into elements.
            It pads shorter ones.
        element_taken_apart: cost per element of such a vector in a block that only adds to or copies results.
        divided_index: cost per element of a vector whose index LLVM divides by an extent, one element at a time.
        gathering_steps: how many times longer a body takes on average that gathers for several steps of a reduction:
            with that many loads, LLVM leaves the results of some in memory, which takes four times as long.
        loading_ahead: how many times longer a body of several steps of a reduction takes on average with few registers:
            LLVM loads ahead for the next step, and spills in one of five such bodies.
        copied: cost per vector of padding, or of another input, that is computed before it is read.
        copied_at_once: up to this many vectors are computed without loops, and are still in L1 when they are read.
        copied_in_loops: cost per vector of a larger copy: loops over rows, edges, and a round trip to L2.
        inlined: cost per load that computes the value instead.
        line_from_second_level: a rate, not a latency: contiguous lines are prefetched during the arithmetic.
        line_from_beyond: the same for lines from beyond L2.
        gathered: cost per element of a vector whose elements come from different rows: a load and a shuffle.
        aliasing_bytes: rows at a distance of a multiple of this share one set of an L1 of 64 sets, whatever its size.
        second_aliasing_bytes: the same for an L2 of 2048 sets.
        ways: associativity of such a set.
        refetched_line: cost per line that was evicted from its set.
        parallel_loop: cost of another parallel loop, whose threads read what others wrote.
        allocated_bytes: size from which on TVM allocates a buffer on each use; it keeps smaller ones on the stack.
        allocation: cost of that.
        result_in_memory: cost per vector of results that another block reads in such a buffer, and again for each
            doubling of its size.
    """

    bytes_multiplied_per_cycle: int = 64
    loads_per_cycle: float = 2.0
    latency: float = 4.0
    iteration: float = 0.0
    not_overlapped: float = 0.2
    spilled_result: float = 4.0
    result_while_spilling: float = 0.5
    long_body: int = 128
    operation_of_long_body: float = 0.5
    uneven_vector: float = 6.0
    element_taken_apart: float = 3.6
    divided_index: float = 8.0
    gathering_steps: float = 1.25
    loading_ahead: float = 1.08
    copied: float = 1.0
    copied_at_once: int = 64
    copied_in_loops: float = 5.0
    inlined: float = 0.5
    line_from_second_level: float = 0.5
    line_from_beyond: float = 3.0
    gathered: float = 1.0
    aliasing_bytes: int = 4096
    second_aliasing_bytes: int = 128 * 1024
    ways: int = 8
    refetched_line: float = 4.0
    parallel_loop: float = 15_000.0
    allocated_bytes: int = 1024
    allocation: float = 45.0
    result_in_memory: float = 1.0


@dataclass(frozen=True)
class ProcessorModel:
    """The processor parameters of the model. Cache sizes are per core.

    Attributes:
        vector_bytes: of a vector register.
        vector_registers: their number.
        unit_bytes: a vector of up to so many bytes takes as long as one of so many, and a longer one in proportion.
        load_bytes: what one load from the L1 cache brings; a vector that is longer takes several.
    """

    cores: int
    vector_bytes: int
    vector_registers: int
    unit_bytes: int
    load_bytes: int
    first_cache_bytes: int = 32 * 1024
    second_cache_bytes: int = 1024 * 1024
    costs: CycleCosts = field(default_factory=CycleCosts)

    @property
    def has_few_registers(self) -> bool:
        """Whether what LLVM loads ahead of its use takes registers from the results."""
        return self.vector_registers <= FEW_VECTOR_REGISTERS

    @property
    def usable_registers(self) -> int:
        """How many registers a body may need without spilling; of few, LLVM often fills two ahead."""
        return self.vector_registers - 2 if self.has_few_registers else self.vector_registers

    def lanes(self, element_bytes: int) -> int:
        """Elements in one vector register, at least 1."""
        return max(1, self.vector_bytes // element_bytes)


def as_sapphire_rapids(model: ProcessorModel) -> ProcessorModel:
    """The model of a processor that multiplies twice as much in a cycle, with larger caches, and memory far beyond L2.

    A line from L2 costs twice as many cycles, too. Tiles of more than three quarters of the L2 of 2 MB are slower.
    """
    return replace(
        model,
        first_cache_bytes=48 * 1024,
        second_cache_bytes=1536 * 1024,
        costs=CycleCosts(
            bytes_multiplied_per_cycle=128, iteration=1.0, line_from_second_level=1.0, line_from_beyond=8.0
        ),
    )
