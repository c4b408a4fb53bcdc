"""The best records for a function, and how well they match the requested device."""

from collections.abc import Sequence

from tunefarm_schemas.farm.lane import KINDS_FOR_TARGET
from tunefarm_schemas.tuning.record import MatchKind, RecordKey, RecordMatch
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.api.bodies.record import BestBody
from tunefarm_services.api.intake.intake_messages import TargetText
from tunefarm_services.api.operations.module_intake import understood
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.store.catalog.lane_repository import LaneRepository
from tunefarm_services.store.records.best_record_repository import BestRecordRepository

UNKNOWN = "unknown"


Question = TargetText | Target


def best_records(parts: Parts, tenant: str, body: BestBody, question: Question) -> list[RecordMatch]:
    """Find records for the function, the most trustworthy first. ``question`` is the request's target, as parsed.

    Raises:
        BadInput: the module or the target cannot be used.
        NotFound: the workload or the upload does not exist.
    """
    if body.workload_id is not None and isinstance(question, Target):
        workload_id, target = body.workload_id, question
    elif body.workload_id is not None:
        assert not isinstance(question, Target)
        workload_id, target = body.workload_id, parts.intake.target(question).target
    else:
        answer = understood(parts, tenant, [body], question)
        assert answer.target is not None
        workload_id, target = answer.workloads[0].workload.workload_id, answer.target
    places = _places(parts.store.lanes, parts.store.best_records, tenant, workload_id, target, body)
    found = [
        parts.store.best_records.matches(tenant, _key(workload_id, target, place, body), limit=body.limit)
        for place in places
    ]
    return _merged(found, body.limit)


def needs_child(parts: Parts, body: BestBody, question: Question) -> bool:
    """Whether answering requires TVM, and not only the store."""
    if body.workload_id is None:
        return True
    return not isinstance(question, Target) and not parts.intake.knows_target(question)


def _key(workload_id: str, target: Target, place: tuple[str, str], body: BestBody) -> RecordKey:
    device_class_id, code_generator = place
    return RecordKey(
        workload_id=workload_id,
        target_id=target.target_id,
        device_class_id=device_class_id,
        code_generator=code_generator,
        protocol_id=body.protocol_id,
        abi=body.abi,
    )


def _places(
    lanes: LaneRepository,
    best_records: BestRecordRepository,
    tenant: str,
    workload_id: str,
    target: Target,
    body: BestBody,
) -> list[tuple[str, str]]:
    """Device classes with code generators for which an answer may be called exact.

    If the caller names no class, there must be only one: the class of all lanes, or otherwise of all records of the
    function for this target.
    """
    if body.device_class_id is not None and body.code_generator is not None:
        return [(body.device_class_id, body.code_generator)]
    kinds = KINDS_FOR_TARGET.get(target.kind, ())
    of_lanes = {
        (lane.device.device_class.device_class_id, lane.code_generator)
        for lane in lanes.find(body.device_class_id)
        if lane.kind in kinds
    }
    of_records = set(best_records.places(tenant, workload_id, target.target_id, body.device_class_id))
    for places in (of_lanes, of_records):
        wanted = {place for place in places if body.code_generator in (None, place[1])}
        if wanted and len({device_class_id for device_class_id, _ in wanted}) == 1:
            return sorted(wanted)
    return [(body.device_class_id or UNKNOWN, body.code_generator or UNKNOWN)]


def _merged(answers: Sequence[Sequence[RecordMatch]], limit: int) -> list[RecordMatch]:
    """Merge the answers for several code generators of one class: each record once, with its best match."""
    found: dict[str, RecordMatch] = {}
    order = list(MatchKind)
    for match in sorted((m for each in answers for m in each), key=lambda m: order.index(m.match)):
        found.setdefault(match.record.record_id, match)
    exact = sorted((m for m in found.values() if m.match is MatchKind.EXACT), key=lambda m: m.record.latency_s)
    others = [match for kind in order[1:] for match in [m for m in found.values() if m.match is kind][:limit]]
    return [*exact, *others]
