"""The child that parses lines of a TVM database. A line may crash it."""

from functools import partial
from typing import TypeVar

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.database import RefusedLine
from tunefarm_search.records.tvm_database import DatabaseReader, LineRefused
from tunefarm_services.exchange.database_messages import (
    HoldWorkloads,
    ReaderOrder,
    ReadLines,
    ReadRecord,
    UnderstoodLines,
    to_reader,
)

Noun = TypeVar("Noun", Workload, Target)


def read(channel: Channel, payload: bytes, _descriptors: list[int]) -> None:
    """Entry: answer each ``ReadLines`` with ``UnderstoodLines`` until the channel closes.

    It sends the number of each line before TVM processes it, and the number of each workload, after a ``w``, before TVM
    loads it, so that the parent knows which of them crashed this process.
    """
    order = ReaderOrder.model_validate_json(payload)
    reading = _Reading(channel, DatabaseReader(order.callees))
    while True:
        try:
            message = to_reader.validate_json(channel.receive())
        except ChannelClosed:
            return
        if isinstance(message, HoldWorkloads):
            for line in message.lines:
                reading.reader.hold(line.number - 1, line.text)
            continue
        channel.send(reading.understood(message).model_dump_json().encode())


class _Reading:
    def __init__(self, channel: Channel, reader: DatabaseReader) -> None:
        self.reader = reader
        self._channel = channel
        self._sent: set[str] = set()
        self._seen: set[tuple[str, str, str]] = set()

    def understood(self, request: ReadLines) -> UnderstoodLines:
        records: list[ReadRecord] = []
        refused: list[RefusedLine] = []
        workloads: list[Workload] = []
        targets: list[Target] = []
        repeated = 0
        for line in request.lines:
            self.reader.before_tvm = partial(self._report, line.number)
            try:
                if request.file == "workloads":
                    self.reader.check_workload(line.number - 1)
                    continue
                found = self.reader.record(line.text)
            except LineRefused as reason:
                refused.append(RefusedLine(file=request.file, line=line.number, reason=str(reason)))
                continue
            workload_id, target_id = found.workload.workload_id, found.target.target_id
            key = (workload_id, target_id, found.trace.trace_id)
            if key in self._seen:
                repeated += not found.is_form
                continue
            self._seen.add(key)
            workloads += self._unsent(workload_id, found.workload)
            targets += self._unsent(target_id, found.target)
            records.append(
                ReadRecord(
                    line=line.number,
                    workload_id=workload_id,
                    target_id=target_id,
                    trace=found.trace,
                    latency_s=found.latency_s,
                    is_form=found.is_form,
                )
            )
        return UnderstoodLines(
            records=tuple(records),
            workloads=tuple(workloads),
            targets=tuple(targets),
            refused=tuple(refused),
            repeated=repeated,
        )

    def _report(self, line: int, workload: int | None) -> None:
        self._channel.send(b"%d" % line if workload is None else b"w%d" % (workload + 1))

    def _unsent(self, ident: str, noun: Noun) -> list[Noun]:
        if ident in self._sent:
            return []
        self._sent.add(ident)
        return [noun]
