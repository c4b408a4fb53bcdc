"""Synthetic tuning records, distributed as on a farm after years, to fill a store."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.tuning.record import RecordKey

CHUNK_RECORDS: Final = 10_000
TENANT: Final = "scale"

RECORD_COLUMNS: Final = (
    "tenant",
    "record_id",
    "workload_id",
    "target_id",
    "device_class_id",
    "code_generator",
    "protocol_id",
    "abi",
    "trace",
    "latency_s",
    "interval_low_s",
    "interval_high_s",
    "untuned_latency_s",
    "status",
    "status_reason",
    "source",
    "exploration_id",
    "created_at",
)
Row = tuple[str | float | None, ...]

_RECORDS_PER_WORKLOAD: Final = 200
_SHAPES_PER_FAMILY: Final = 50
_DEVICE_CLASSES: Final = 24
_TARGETS: Final = 4
_CODE_GENERATORS: Final = ("tvm-0.27.0.post1+llvm-22.1", "tvm-0.26.0+llvm-21.1")
_PROTOCOL: Final = "cpu-hot-cache/1"
_STATUSES: Final = ("verified", "claimed", "retracted")
_STATUS_WEIGHTS: Final = (97, 2, 1)
_ZIPF_EXPONENT: Final = 1.1
_OPERATORS: Final = {"matmul": 3, "conv2d_nhwc": 7, "batch_matmul": 4, "dense_bias_relu": 3}
_TRACES_PER_OPERATOR: Final = 8


@dataclass(frozen=True, slots=True)
class SyntheticWorkload:
    """A row of the table of workloads; its module is not stored."""

    workload_id: str
    name: str
    family: str
    floating_point_operations: float


class SyntheticRecords:
    """The same records for the same ``records`` and ``seed``, in chunks of any order.

    The popularity of workloads and device classes follows Zipf's law, in queries as in records.
    """

    def __init__(self, records: int, seed: int) -> None:
        self.records = records
        self._seed = seed
        count = max(records // _RECORDS_PER_WORKLOAD, 10)
        self.workloads = [_workload(number) for number in range(count)]
        self._device_classes = [digest(f"device class {number}") for number in range(_DEVICE_CLASSES)]
        # All records of a fast class come before those of a slow one, wherever they are sorted by latency.
        self._slowness = {each: 1.6 ** (7 * rank % _DEVICE_CLASSES) for rank, each in enumerate(self._device_classes)}
        self.targets = [digest(f"target {number}") for number in range(_TARGETS)]
        self._workload_weights = _zipf(count)
        self._class_weights = _zipf(_DEVICE_CLASSES)
        self._templates = {name: _templates(name, loops) for name, loops in _OPERATORS.items()}

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.records // CHUNK_RECORDS)

    def chunk(self, number: int) -> Iterator[Row]:
        """The records of one chunk, in the order of ``RECORD_COLUMNS``."""
        chance = random.Random(f"{self._seed} {number}")
        count = min(CHUNK_RECORDS, self.records - number * CHUNK_RECORDS)
        workloads = chance.choices(self.workloads, cum_weights=self._workload_weights, k=count)
        for workload, key in zip(workloads, self._keys(chance, workloads), strict=True):
            slowness = self._slowness[key.device_class_id]
            latency_s = slowness * workload.floating_point_operations / chance.lognormvariate(25.0, 0.7)
            interval_s = (latency_s * 0.99, latency_s * 1.02) if chance.random() < 0.1 else (None, None)
            yield (
                TENANT,
                chance.randbytes(16).hex(),
                *key.model_dump().values(),
                self._trace(chance, workload.name),
                latency_s,
                *interval_s,
                latency_s * 12.0,
                chance.choices(_STATUSES, _STATUS_WEIGHTS)[0],
                "re-timed beside the former best",
                "tuned",
                None,
                f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T03:04:05.000006+00:00",
            )

    def queries(self, count: int) -> list[RecordKey]:
        """Keys to query, as popular as those of the records."""
        chance = random.Random(f"{self._seed} asked")
        workloads = chance.choices(self.workloads, cum_weights=self._workload_weights, k=count)
        return list(self._keys(chance, workloads))

    def _keys(self, chance: random.Random, workloads: Sequence[SyntheticWorkload]) -> Iterator[RecordKey]:
        classes = chance.choices(self._device_classes, cum_weights=self._class_weights, k=len(workloads))
        for workload, device_class_id in zip(workloads, classes, strict=True):
            yield RecordKey.model_construct(
                workload_id=workload.workload_id,
                target_id=chance.choice(self.targets),
                device_class_id=device_class_id,
                code_generator=chance.choices(_CODE_GENERATORS, (4, 1))[0],
                protocol_id=_PROTOCOL,
                abi="stable",
            )

    def _trace(self, chance: random.Random, name: str) -> str:
        start, loops, end = chance.choice(self._templates[name])
        decisions = ",".join(
            f"[{place},[{chance.choice((1, 2, 4, 8))},{chance.choice((1, 2, 4))},{chance.choice((1, 7, 8, 16))},"
            f"{chance.choice((1, 4, 16, 64))}]]"
            for place in range(2, 2 + loops)
        )
        return f"{start}{decisions},[{loops + 9},{chance.randrange(4)}]{end}"


def _workload(number: int) -> SyntheticWorkload:
    name = tuple(_OPERATORS)[number // _SHAPES_PER_FAMILY % len(_OPERATORS)]
    extent = 16 * (1 + number % _SHAPES_PER_FAMILY)
    return SyntheticWorkload(
        workload_id=digest(f"workload {number}"),
        name=name,
        family=digest(f"family {number // _SHAPES_PER_FAMILY}"),
        floating_point_operations=2.0 * extent**3,
    )


def _zipf(count: int) -> list[float]:
    return list(itertools.accumulate(1.0 / rank**_ZIPF_EXPONENT for rank in range(1, count + 1)))


def _templates(name: str, loops: int) -> list[tuple[str, int, str]]:
    """Traces in the form of TVM's multi-level tiling with cache write, parallel, vectorise and unroll: 2 to 4 KB."""
    made = []
    for variant in range(_TRACES_PER_OPERATOR):
        instructions: list[object] = [
            ["GetSBlock", [], [name, "main"], ["b0"]],
            ["GetSBlock", [], ["root", "main"], ["b9"]],
            ["GetLoops", ["b0"], [], [f"l{loop}" for loop in range(loops)]],
            ["Annotate", ["b0", '"SSRSRS"'], ["meta_schedule.tiling_structure"], []],
        ]
        for loop in range(loops):
            factors = [f"v{loop}_{level}" for level in range(4)]
            parts = [f"l{loop}_{level}" for level in range(4)]
            instructions.append(["SamplePerfectTile", [f"l{loop}"], [4, 64], factors])
            instructions.append(["Split", [f"l{loop}", *factors], [1, 0], parts])
        order = [f"l{loop}_{level}" for level in range(4) for loop in range(loops)]
        instructions.append(["Reorder", order, [], []])
        instructions.append(["CacheWrite", ["b0"], [0, "global"], ["b1"]])
        instructions.append(["ReverseComputeAt", ["b1", f"l{variant % loops}_1"], [1, -1], []])
        for key, value in (("parallel", 32), ("vectorize", 64), ("unroll_explicit", 16 << variant % 4)):
            instructions.append(["Annotate", ["b0", value], [f"meta_schedule.{key}"], []])
        instructions += [["GetConsumers", ["b0"], [], ["b2"]], ["EnterPostproc", [], [], []]]
        for loop in range(loops):
            instructions.append(["Fuse", [f"l{loop}_0", f"l{loop}_1"], [1], [f"f{loop}"]])
            instructions.append(["Parallel", [f"f{loop}"], [], []])
            instructions.append(["Vectorize", [f"l{loop}_3"], [], []])
            instructions.append(["Annotate", [f"f{loop}", 16 << variant % 4], ["pragma_auto_unroll_max_step"], []])
        for block in ("b0", "b1", "b2"):
            instructions.append(["Unannotate", [block], ["meta_schedule.thread_extent_low_inclusive"], []])
            instructions.append(["Unannotate", [block], ["meta_schedule.thread_extent_high_inclusive"], []])
            instructions.append(["GetLoops", [block], [], [f"{block}_{loop}" for loop in range(4 * loops)]])
        instructions.append(["DecomposeReduction", ["b0", f"l{loops - 1}_0"], [], ["b3"]])
        made.append((f"[{canonical_json(instructions)},[", loops, "]]"))
    return made
