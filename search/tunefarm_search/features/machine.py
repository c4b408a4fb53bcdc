"""The processor, as far as the analytical cost model knows it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CycleCosts:
    """The constants of the analytical cost model, in cycles of one core unless they say otherwise.

    Attributes:
        bytes_multiplied_per_cycle: by the vector units.
        loads_per_cycle: of vectors, from the first cache.
        latency: of a multiplication that waits for the one before.
        spilled_result: for each result too many for the registers.
        result_while_spilling: for each result, where there are too many.
        long_body: a body of more operations is not scheduled well: what it loads early must be put aside.
        operation_of_long_body: for each operation, where a body is twice as long.
        copied: for a vector of padding, or of another input, that is computed before it is read.
        copied_at_once: so many vectors are computed without loops, and are still in the first cache when they are read.
        copied_in_loops: for a vector, where it is more of them: loops over rows and their edges, and a way to the
            second cache and back.
        inlined: for a load that computes it instead.
        line_from_second_level: a rate, not a latency: what lies in order is fetched ahead while the arithmetic goes on.
        line_from_beyond: the same for what the second cache does not hold.
        gathered: for an element of a vector that comes from a row of its own: a load and a shuffle.
        aliasing_bytes: rows that lie a multiple of this apart share one set of a first cache of 64 sets, whatever its
            size.
        ways: of that set.
        refetched_line: for a line that others have driven out of its set.
    """

    bytes_multiplied_per_cycle: int = 64
    loads_per_cycle: float = 2.0
    latency: float = 4.0
    spilled_result: float = 4.0
    result_while_spilling: float = 0.5
    long_body: int = 128
    operation_of_long_body: float = 0.5
    copied: float = 1.0
    copied_at_once: int = 64
    copied_in_loops: float = 5.0
    inlined: float = 0.5
    line_from_second_level: float = 0.5
    line_from_beyond: float = 2.0
    gathered: float = 1.0
    aliasing_bytes: int = 4096
    ways: int = 8
    refetched_line: float = 4.0


@dataclass(frozen=True)
class ProcessorModel:
    """What the model must know of the processor. The caches are those of one core."""

    cores: int
    vector_bytes: int
    first_cache_bytes: int = 32 * 1024
    second_cache_bytes: int = 1024 * 1024
    costs: CycleCosts = field(default_factory=CycleCosts)

    @property
    def vector_registers(self) -> int:
        """Architectural vector registers."""
        return 32 if self.vector_bytes >= 64 else 16
