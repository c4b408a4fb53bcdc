"""Verifies the result of a search, and writes its record and artifact.

1. rank      time the fastest candidates, the standing record's schedule and the untuned function side by side
2. keep      the standing record, if it wins
3. export    compile the winner to a library, and time it in fresh processes; in more of them if they disagree
4. replace   the winner by the second if it is fast in some processes only, by the untuned function if that is as fast
5. record    the schedule with its library, and retract a standing record that it disproves
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from uuid import uuid4

from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.measurement import (
    ComparisonOrder,
    Exported,
    ExportOrder,
    ExportResult,
    Failed,
    Result,
    Timing,
)
from tunefarm_schemas.tuning.record import BUSY, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.care import FULL, Care
from tunefarm_services.tuner.verify.ranking import (
    UNTUNED,
    Ranking,
    beats_untuned,
    beside_untuned,
    fault_of,
    is_disproved,
    is_scattered,
    leaves_doubt,
    merged,
    require_right_untuned,
    stands,
)
from tunefarm_services.tuner.verify.status_text import again_text, as_given_text, busy_text, still_text
from tunefarm_services.tuner.verify.stored_answer import Finished, standing_record, stored_answer
from tunefarm_services.tuner.verify.stored_library import checked_export, usable_artifact
from tunefarm_services.tuner.verify.verifying_steps import OnStep, comparison_step, export_step

FINALISTS, MAX_FINALISTS = 3, 6
CLOSE = 1.06
"""Latencies of the search within this ratio of the fastest are compared side by side: the search cannot order them."""
SLOW_S = 0.05
"""For kernels that take longer, noise is small, so only close candidates are compared."""
COMPARE_S = 0.1
"""Seconds of timing for each schedule that is compared."""
MORE_PROCESSES = 8
REFUSAL_S = 1.0
"""Time to wait for a farm's explanation: it cancels the orders of an unverifiable task just before it reports why."""


class Verifier:
    """Verifies the outcome of explorations and writes their records."""

    def __init__(
        self,
        store: Store,
        farm: Farm,
        lease: Lease,
        on_wait: Callable[[], bool],
        on_step: OnStep = lambda _: None,
        cares: Mapping[str, Care] = MappingProxyType({}),
    ) -> None:
        """``on_wait`` is called a few times a second while the farm works; it returns False if the job must stop.

        ``cares`` says by exploration how thoroughly it is verified; in full where it says nothing.
        """
        self._on_wait = on_wait
        self._on_step = on_step
        self._store = store
        self._farm = farm
        self._tenant = lease.tenant
        self._lease = lease
        self._cares = cares

    def finish(self, run: ExplorationRun) -> Finished:
        """Compare, export, record. Keeps the standing record if it wins the comparison.

        Raises:
            BadInput: the reference cannot be trusted; nothing was written.
        """
        standing = standing_record(self._store.best_records, run)
        finalists = _finalists(run)
        if standing is not None and standing.trace not in finalists:
            finalists.append(standing.trace)
        ranking = self._rank(run, finalists)
        if not ranking.timed:
            return self._kept(run, standing, ranking.first_failure)
        kept = self._kept(run, standing)
        whole = standing if kept.artifact_id is not None else None  # a record without a library is built again
        if whole is not None and stands(whole, ranking) and self._care(run).accepts(whole):
            return kept
        trace, exported = self._at_least_untuned(run, *self._shipped(run, ranking, standing), ranking)
        if whole is not None and trace == whole.trace and not _is_better_known(whole, exported):
            return kept
        return self._record(run, trace, exported, standing, ranking, is_rebuilt=whole is None)

    def check_untuned(self, run: ExplorationRun) -> None:
        """Time the untuned function after a run without any timing, to find out whether it is the cause.

        Raises:
            BadInput: the untuned function cannot be verified.
        """
        if not self._rank(run, []).timed:
            self._farm.collect(REFUSAL_S)

    def note_verified(self, run: ExplorationRun) -> None:
        """Note that all trials until now are verified."""
        self._store.explorations.set_verified(self._lease, run.exploration_id)

    def known(self, run: ExplorationRun) -> Finished | None:
        """The store's answer for a run without new trials; None if there is something to verify."""
        if run.trials_done or not run.exploration.is_verified:
            return None
        answer = stored_answer(self._store.best_records, self._store.artifacts, run)
        return answer if answer is not None and answer.is_answer(self._care(run)) else None

    def claim(self, run: ExplorationRun) -> TuningRecord | None:
        """Store the incumbent of an interrupted run as a claim, which seeds later searches."""
        if run.best_latency_s is None or not run.improvements:
            return None
        record = self._new_record(
            run, run.fastest(1)[0], run.best_latency_s, None, RecordStatus.CLAIMED, "interrupted before verification"
        )
        self._store.records.put(self._tenant, self._lease, record)
        return record

    def _care(self, run: ExplorationRun) -> Care:
        return self._cares.get(run.exploration_id, FULL)

    def _kept(
        self, run: ExplorationRun, standing: TuningRecord | None, failure: TrialFailure | None = None
    ) -> Finished:
        """The result of a run without a new record."""
        artifact = (
            None if standing is None else usable_artifact(self._store.artifacts, standing, run.target, run.callees)
        )
        note = "" if standing is None or self._care(run).accepts(standing) else still_text(standing)
        return Finished(standing, None if artifact is None else artifact.artifact_id, failure, note)

    def _rank(self, run: ExplorationRun, finalists: Sequence[Trace]) -> Ranking:
        order = ComparisonOrder(exploration_id=run.exploration_id, traces=(*finalists, None), seconds_each=COMPARE_S)
        self._on_step(comparison_step(run, finalists, self._care(run).processes))
        results = self._farm.compare(order, self._on_wait).results
        timings: dict[Trace, Timing] = {}
        failures: dict[Trace, TrialFailure] = {}
        for trace, result in zip(order.traces, results, strict=True):
            failure = _failure_of(run, result)
            if failure is not None:
                failures[trace or UNTUNED] = failure
            elif isinstance(result, Timing):
                timings[trace or UNTUNED] = result
                run.compared_s[trace or UNTUNED] = result.latency_s
                if trace is None:
                    run.note_untuned(result.latency_s, is_estimate=result.is_estimate)
        require_right_untuned(results[-1])
        timed = [(timing.latency_s, trace) for trace, timing in timings.items()]
        return Ranking(sorted(timed, key=lambda pair: pair[0]), failures, timings)

    def _shipped(
        self, run: ExplorationRun, ranking: Ranking, standing: TuningRecord | None
    ) -> tuple[Trace, ExportResult]:
        """The fastest schedule and its library; or the second, if the first is fast in some processes only.

        The mean decides between them: the median of a bimodal distribution may belong to either mode.
        """
        ranked = ranking.timed
        first = ranked[0][1]
        exported = self._export(run, *ranked[0], beside_untuned=ranking.may_lose_to_untuned(first))
        if len(ranked) == 1 or not isinstance(exported, Exported) or not is_scattered(exported.process_latencies_s):
            return first, exported
        compared_s, second = ranked[1]
        mean_s = statistics.fmean(exported.process_latencies_s)
        if compared_s >= mean_s or (standing is not None and second == standing.trace):
            return first, exported
        is_close = ranking.may_lose_to_untuned(second)
        instead = self._export(run, compared_s, second, worth_s=mean_s, beside_untuned=is_close)
        if isinstance(instead, Exported) and statistics.fmean(instead.process_latencies_s) < mean_s:
            return second, instead
        return first, exported

    def _at_least_untuned(
        self, run: ExplorationRun, trace: Trace, exported: ExportResult, ranking: Ranking
    ) -> tuple[Trace, ExportResult]:
        """``trace``, or the untuned function if it is as fast in fresh processes.

        A schedule that won side by side may lose here: call overhead, memory placement and host load differ. A farm
        that cannot time both in one process times one after the other.
        """
        compared_s = run.untuned_latency_s
        if compared_s is None or not isinstance(exported, Exported) or not ranking.may_lose_to_untuned(trace):
            if trace == UNTUNED and isinstance(exported, Exported):
                run.note_untuned(statistics.median(exported.process_latencies_s))
            return trace, exported
        took_s = statistics.median(exported.process_latencies_s)
        if exported.untuned_latencies_s:
            run.note_untuned(statistics.median(exported.untuned_latencies_s))
            if beats_untuned(exported):
                return trace, exported
        elif took_s < compared_s:
            return trace, exported
        untuned = self._export(run, compared_s, UNTUNED)
        if not isinstance(untuned, Exported):
            return trace, exported
        latency_s = statistics.median(untuned.process_latencies_s)
        if not exported.untuned_latencies_s and latency_s > took_s:
            run.note_untuned(latency_s)
            return trace, exported
        run.note_untuned(latency_s)
        return UNTUNED, untuned

    def _export(
        self,
        run: ExplorationRun,
        compared_s: float,
        trace: Trace,
        worth_s: float = float("inf"),
        *,
        beside_untuned: bool = False,
    ) -> ExportResult:
        """The library of ``trace``, timed in more processes if the first ones are inconclusive.

        No more are needed if their mean is not below ``worth_s``.
        """
        likely_s = min([compared_s, *run.latencies_of(trace)])
        care = self._care(run)
        order = ExportOrder(
            exploration_id=run.exploration_id,
            trace=trace,
            processes=care.processes,
            likely_s=likely_s,
            beside_untuned=beside_untuned,
        )
        exported = self._exported(run, order)
        if not isinstance(exported, Exported) or not care.has_more:
            return exported
        if statistics.fmean(exported.process_latencies_s) >= worth_s:
            return exported
        if not leaves_doubt(exported.process_latencies_s, compared_s, likely_s):
            return exported
        more = self._exported(run, order.model_copy(update={"processes": MORE_PROCESSES}))
        if not isinstance(more, Exported):
            return exported
        return merged(exported, more)

    def _exported(self, run: ExplorationRun, order: ExportOrder) -> ExportResult:
        """The farm's export, or a failure if its library or its latencies are not valid."""
        what = "the untuned function" if order.trace == UNTUNED else ""
        self._on_step(export_step(run, order.likely_s, order.processes, what))
        exported = checked_export(self._farm.export(order, self._on_wait), run.target, run.callees)
        if isinstance(exported, Exported):
            doubt = run.disbelief(min(exported.process_latencies_s, default=float("inf")))
            return exported if doubt is None else Failed(failure=doubt)
        return exported

    def _record(
        self,
        run: ExplorationRun,
        trace: Trace,
        exported: ExportResult,
        standing: TuningRecord | None,
        ranking: Ranking,
        *,
        is_rebuilt: bool,
    ) -> Finished:
        if not isinstance(exported, Exported):
            return self._kept(run, standing, exported.failure)
        latencies_s = exported.process_latencies_s
        record = self._new_record(
            run,
            trace,
            statistics.median(latencies_s),
            (min(latencies_s), max(latencies_s)),
            RecordStatus.VERIFIED,
            f"correct on three inputs{as_given_text(run)}; timed in {len(latencies_s)} fresh processes"
            f"{self._care(run).reason}{beside_untuned(ranking)}{busy_text(exported)}",
            exported.foreign_load,
            len(latencies_s),
        )
        self._store.records.put(self._tenant, self._lease, record)
        if standing is not None:  # after the new record is stored, so that one always exists
            self._retract_refuted(standing, record, ranking, is_rebuilt=is_rebuilt)
        manifest = self._manifest(run, record, exported)
        self._store.artifacts.put(self._tenant, manifest, exported.library)
        note = "" if standing is None or self._care(run).accepts(standing) else again_text(standing)
        return Finished(record=record, artifact_id=manifest.artifact_id, note=note, is_new=True)

    def _retract_refuted(
        self, standing: TuningRecord, record: TuningRecord, ranking: Ranking, *, is_rebuilt: bool
    ) -> None:
        """Retract the standing record if the new one refutes it: in the sharing group only if its schedule is wrong."""
        fault, is_wrong = fault_of(standing, record, ranking), is_disproved(standing, ranking)
        if is_rebuilt and not is_wrong:
            fault = f"its library was missing, damaged or refused; built again as record {record.record_id}"
        if fault is not None:
            self._store.records.retract(self._tenant, standing.record_id, fault, of_group=is_wrong)

    def _new_record(
        self,
        run: ExplorationRun,
        trace: Trace,
        latency_s: float,
        interval_s: tuple[float, float] | None,
        status: RecordStatus,
        reason: str,
        foreign_load: float | None = None,
        processes: int | None = None,
    ) -> TuningRecord:
        return TuningRecord(
            record_id=uuid4().hex,
            tenant=self._tenant,
            key=run.record_key,
            trace=trace,
            latency_s=latency_s,
            interval_s=interval_s,
            untuned_latency_s=run.untuned_latency_s,
            untuned_is_estimate=run.untuned_is_estimate,
            status=status,
            status_reason=reason,
            source="tuned",
            exploration_id=run.exploration_id,
            created_at=utc_now(),
            foreign_load=foreign_load,
            processes=processes,
        )

    def _manifest(self, run: ExplorationRun, record: TuningRecord, exported: Exported) -> ArtifactManifest:
        library_digest = digest(exported.library)
        return ArtifactManifest(
            schema_version=SCHEMA_VERSION,
            artifact_id=digest(f"{record.record_id}:{library_digest}"),
            record_id=record.record_id,
            workload_id=run.workload.workload_id,
            workload_name=run.workload.name,
            arguments=run.workload.arguments,
            target=run.target.canonical,
            num_cores=run.target.num_cores,
            device_class_id=record.key.device_class_id,
            code_generator=record.key.code_generator,
            protocol_id=record.key.protocol_id,
            abi=record.key.abi,
            entry=exported.entry,
            pack_entry=exported.pack_entry,
            packed_arguments=exported.packed_arguments,
            trace_id=record.trace.trace_id,
            latency_s=record.latency_s,
            interval_s=record.interval_s,
            library_digest=library_digest,
            library_name=f"{library_digest[:16]}.so",
            created_at=record.created_at,
            input_specs=run.input_specs,
        )


def _failure_of(run: ExplorationRun, result: Result) -> TrialFailure | None:
    """Why a schedule has no latency, or an impossible one."""
    if isinstance(result, Failed):
        return result.failure
    return run.disbelief(result.latency_s) if isinstance(result, Timing) else None


def _is_better_known(standing: TuningRecord, exported: ExportResult) -> bool:
    """Whether a record measured on a busy host, or in few processes, now has latencies from an idle one and more."""
    if not isinstance(exported, Exported) or exported.foreign_load >= BUSY:
        return False
    return standing.is_doubtful or (standing.processes or len(exported.process_latencies_s)) < len(
        exported.process_latencies_s
    )


def _finalists(run: ExplorationRun) -> list[Trace]:
    close_s = CLOSE * (run.best_latency_s or 0.0)
    close = sum(latency_s <= close_s for latency_s in run.latencies_s.values())
    if close_s > SLOW_S:
        return run.fastest(min(close, MAX_FINALISTS))
    return run.fastest(min(max(FINALISTS, close), MAX_FINALISTS))
