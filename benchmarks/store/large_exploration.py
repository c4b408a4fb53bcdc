"""An exploration with as many trials as wanted, written to a store in large chunks."""

import math
import random
from collections.abc import Callable, Iterator
from typing import Final

from sqlalchemy import insert

from benchmarks.load.synthetic_jobs import SyntheticJobs
from benchmarks.store.synthetic_records import TENANT, SyntheticRecords
from tunefarm_schemas.failure import FailureReason
from tunefarm_services.store import Store
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.tables import DispatchTable, MeasurementTable, TrialTable

_CHUNK: Final = 20_000
_TIMED_SHARE: Final = 0.1
_FAILED_SHARE: Final = 0.02
_FACTORS: Final = ((64, 1, 2, 1), (16, 2, 4, 1), (8, 4, 2, 2), (4, 1, 8, 4), (2, 2, 2, 16), (1, 8, 4, 4), (1, 1, 2, 64))
_REASONS: Final = (FailureReason.RUN_TIMEOUT.value, FailureReason.BUILD_ERROR.value)

Row = dict[str, object]


def put_large_exploration(
    url: str, store: Store, trials: int, on_chunk: Callable[[int], None] = lambda _done: None
) -> tuple[str, str]:
    """Store a finished job with ``trials`` trials; return the ids of the job and of its exploration.

    Most were stopped early, as on a real farm. The first tile explains most of the latency, the last choice none.
    """
    job_id, exploration_id = SyntheticJobs(store, SyntheticRecords(10, 0)).put(0, 1)
    database = Database(url, busy_timeout_s=60.0)
    chance = random.Random(0)
    head = _instructions()
    for first in range(1, trials, _CHUNK):
        numbers = range(first, min(first + _CHUNK, trials))
        rows = [_trial(chance, head, exploration_id, number, number / trials) for number in numbers]
        with database.writing() as connection:
            database.lift_time_limits(connection)
            connection.execute(insert(TrialTable), rows)
            connection.execute(insert(DispatchTable), list(_dispatches(job_id, rows)))
            connection.execute(insert(MeasurementTable), list(_measurements(rows)))
        on_chunk(numbers.stop)
    database.close()
    return job_id, exploration_id


def _trial(chance: random.Random, head: str, exploration_id: str, number: int, share: float) -> Row:
    tiles, unroll = [chance.randrange(len(_FACTORS)) for _ in range(4)], chance.randrange(4)
    log_latency = 0.4 * abs(tiles[0] - 3) + 0.1 * tiles[1] - 0.5 * share + chance.gauss(0.0, 0.2) - 9.0
    latency_s, kind = math.exp(log_latency), chance.random()
    is_failed, is_timed = kind < _FAILED_SHARE, kind > 1 - _TIMED_SHARE
    decisions = ",".join(f"[{2 + 2 * place},{list(_FACTORS[tile])}]" for place, tile in enumerate(tiles))
    return {
        "tenant": TENANT,
        "exploration_id": exploration_id,
        "candidate_number": number,
        "trace": f"[[{head}],[{decisions.replace(' ', '')},[10,{unroll}]]]",
        "module_hash": str(chance.getrandbits(63)),
        "origin": "evolved",
        "predicted_score": -log_latency + chance.gauss(0.0, 0.5),
        "predicted_build_s": None,
        "state": "done",
        "is_counted": True,
        "latency_s": latency_s if is_timed else None,
        "at_least_s": None if is_timed or is_failed else latency_s,
        "failure_reason": _REASONS[number % 2] if is_failed else None,
        "failure_message": "register pressure" if is_failed else None,
        "failure_under_load": False if is_failed else None,
    }


def _instructions() -> str:
    """Four tiles and a choice, with as many further instructions as real traces have."""
    steps = ['["GetSBlock",[],["matmul","main"],["b0"]]', '["GetLoops",["b0"],[],["l0","l1","l2","l3"]]']
    for loop in range(4):
        parts = ",".join(f'"v{loop}_{level}"' for level in range(4))
        steps.append(f'["SamplePerfectTile",["l{loop}"],[4,64],[{parts}]]')
        steps.append(f'["Split",["l{loop}",{parts}],[true,false],[{parts.replace("v", "s")}]]')
    steps.append('["SampleCategorical",[],[[0,16,64,512],[0.25,0.25,0.25,0.25]],["v9"]]')
    steps.append('["EnterPostproc",[],[],[]]')
    steps += [f'["Annotate",["s{place % 4}_0",{place}],["pragma_auto_unroll_max_step"],[]]' for place in range(20)]
    return ",".join(steps)


def _dispatches(job_id: str, rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        yield _key(row) | {"dispatch_id": f"d{row['candidate_number']}", "job_id": job_id, "nonce": "made", "fence": 1}


def _measurements(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        result = (
            f'{{"kind":"stopped","at_least_s":{row["at_least_s"]}}}'
            if row["at_least_s"] is not None
            else f'{{"kind":"timing","latency_s":{row["latency_s"]},"samples_s":[{row["latency_s"]}]}}'
            if row["latency_s"] is not None
            else f'{{"kind":"failed","failure":{{"reason":"{row["failure_reason"]}","message":"register pressure"}}}}'
        )
        document = (
            f'{{"dispatch_id":"d{row["candidate_number"]}","nonce":"made","fence":1,"attempt":1,"purpose":"search",'
            f'"exploration_id":"{row["exploration_id"]}","candidate_number":{row["candidate_number"]},'
            f'"result":{result},"stages":{{"build_s":0.1,"run_s":0.02}}}}'
        )
        yield _key(row) | {
            "kind": "made",
            "latency_s": row["latency_s"],
            "failure_reason": row["failure_reason"],
            "device_fingerprint": "made",
            "document": document,
            "measured_at": "2026-01-02T03:04:05.000006+00:00",
        }


def _key(row: Row) -> Row:
    named = {name: row[name] for name in ("tenant", "exploration_id", "candidate_number")}
    return named | {"attempt": 1, "purpose": "search"}
