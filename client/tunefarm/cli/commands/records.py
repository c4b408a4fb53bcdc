"""``tunefarm records``: query, export, import, publish and retract tuning records."""

import shlex
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from tunefarm.cli.remote_options import Api, AsJson, Remote
from tunefarm.cli.text.record_text import (
    FIELD_HEADINGS,
    HEADINGS,
    TRIAL_HEADINGS,
    field_rows,
    match_row,
    record_row,
    trial_rows,
)
from tunefarm.options.job_options import require_protocol
from tunefarm.records.place_choice import record_place
from tunefarm.records.record_place import ModuleQuery, RecordPlace
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import at_service, building, tell_next, with_api
from tunefarm.terminal.tables import print_json, print_list, print_rows
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus, TuningRecord
from tunefarm_schemas.views.quantities import counted
from tunefarm_schemas.views.record import CodeForm, RecordCode
from tunefarm_schemas.visible_text import visible_line

records = typer.Typer(help="Query, export, import, publish and retract tuning records.", no_args_is_help=True)

RecordId = Annotated[str, typer.Argument(metavar="RECORD", help="Id of a record, or a prefix of it.")]
ModuleName = Annotated[str, typer.Argument(metavar="MODULE", help="A module as for tunefarm tune.")]
TargetText = Annotated[
    str, typer.Option(help="host, host:THREADS, a preset such as x86-64-v3, or a TVM target as JSON.")
]
AbiName = Literal["stable", "packed"]
LONGEST_LATENCY_US = 1e10
SHOWN = {CodeForm.SCHEDULED: "Scheduled", CodeForm.PYTHON: "Trace", CodeForm.DIFF: "Changes"}
MAX_SHOWN = 20
"""Rejected lines of an import."""


@records.command("list")
def list_records(
    status: Annotated[RecordStatus | None, typer.Option(help="Only records in this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Maximum number of records.")] = 50,
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """List tuning records, the newest first."""
    with record_place(api, remote=remote) as place:
        found = place.listed(status, limit)
        names = {} if as_json else _names(place, found)

    def row(record: TuningRecord) -> tuple[str, ...]:
        return record_row(record, names[record.key.workload_id])

    return print_list(found, HEADINGS, row, empty="no records", as_json=as_json)


@records.command()
def best(
    module: ModuleName,
    function: Annotated[str | None, typer.Option(help="One of the module's functions.")] = None,
    target: TargetText = "",
    abi: Annotated[AbiName, typer.Option(help="ABI of the record.")] = "stable",
    protocol: Annotated[str, typer.Option(help="Timing protocol: cpu-hot-cache or cpu-cold-cache.")] = "cpu-hot-cache",
    device_class: Annotated[
        str | None, typer.Option(help="Id of a device class. Default: this machine's, or the service's only one.")
    ] = None,
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """Find the best records for a module, on this machine or on a service.

    A match is exact for a verified record of the same target, device class, protocol and ABI.
    """
    query = ModuleQuery(
        module=module,
        function=function,
        target=target,
        abi=abi,
        protocol_id=require_protocol(protocol),
        device_class=device_class,
    )
    with record_place(api, remote=remote, needs_tvm=True) as place:
        matches = place.best(query)
        names = {} if as_json else _names(place, [match.record for match in matches])
    if as_json:
        print_json([match.model_dump(mode="json") for match in matches])
    else:
        rows = [match_row(match, names[match.record.key.workload_id]) for match in matches]
        print_rows(("match", *HEADINGS), rows, empty="no record")
        service = _service_words(api, remote=remote)
        if matches and matches[0].match is MatchKind.EXACT:
            tell_next(building(matches[0].record.record_id, service))
        else:
            tell_next(_tuning(module, service, api))
    return ExitCode.FINE


@records.command()
def show(
    record_id: RecordId,
    form: Annotated[
        CodeForm | None,
        typer.Option(
            help="Print only this: the trace as Python, the scheduled function, the diff from the original to it, "
            "TIR after TVM's lowering, or the assembly of the library that ships."
        ),
    ] = None,
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """Show a record: its runners-up, its latency in the field, and its code.

    The code is the scheduled function, the trace as Python, and the difference to the original function.

    A service writes these texts itself, so --remote and --api need no TVM here.
    """
    with record_place(api, remote=remote, needs_tvm=True) as place:
        record = place.named(record_id)
        codes = {each: place.code(record, each) for each in ((form,) if form else SHOWN)}
        if form is not None:
            _print_code(codes[form], as_json=as_json)
            return ExitCode.FINE
        trials, field = place.trials(record), place.field(record)
        name = place.workload_name(record)
    if as_json:
        texts: dict[str, JsonValue] = {each.value: code.model_dump(mode="json") for each, code in codes.items()}
        shown: dict[str, JsonValue] = {"record": record.model_dump(mode="json"), "code": texts}
        shown["trials"] = trials.model_dump(mode="json")
        shown["field"] = None if field is None else field.model_dump(mode="json")
        print_json(shown)
        return ExitCode.FINE
    print_rows(HEADINGS, [record_row(record, name)], empty="")
    say(visible_line(f"{record.status.value}: {record.status_reason}"))
    if trials.trials:
        say("\n# Fastest trials")
        print_rows(TRIAL_HEADINGS, trial_rows(trials), empty="")
    if field is not None and field.releases:
        say("\n# In the field")
        print_rows(FIELD_HEADINGS, field_rows(field), empty="")
    for each, title in SHOWN.items():
        say(f"\n# {title}")
        _print_code(codes[each])
    if record.status is RecordStatus.VERIFIED:
        tell_next(building(record.record_id, _service_words(api, remote=remote)))
    return ExitCode.FINE


def _print_code(code: RecordCode, *, as_json: bool = False) -> None:
    if as_json:
        print_json(code.model_dump(mode="json"))
        return
    say(code.text.removesuffix("\n"))
    if code.is_truncated:
        complain(f"the {code.form.value} ends here after {counted(len(code.text), 'character')}: it is longer")


@records.command()
def export(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder to write TVM's JSON database into.")],
    record_ids: Annotated[list[str] | None, typer.Option("--record", help="Only this record. Repeatable.")] = None,
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """Write records as a TVM MetaSchedule JSON database: the given ones, or all verified ones of the stable ABI."""
    with record_place(api, remote=remote, needs_tvm=True) as place:
        written = place.export(folder, record_ids or ())
    if as_json:
        missing: list[JsonValue] = [{"records": count, "reason": reason} for count, reason in written.left_out]
        print_json({"records": written.records, "folder": folder, "left_out": missing})
        return ExitCode.FINE
    count = counted(written.records, "record")
    say(f"{count} in {folder}: database_workload.json, database_tuning_record.json")
    for left_out, reason in written.left_out:
        say(visible_line(f"left out: {counted(left_out, 'record')}, {reason}"))
    if written.records:
        from tunefarm.records.tvm_database_folder import carries_intrinsics, opening

        if carries_intrinsics(folder):
            complain("some records tensorize with intrinsics of their users: register them before TVM opens the folder")
        tell_next(opening(folder))
    return ExitCode.FINE


@records.command("import")
def import_records(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder with TVM's JSON database.")],
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """Import records of a TVM MetaSchedule JSON database as claimed records, which seed later searches."""
    with record_place(api, remote=remote, needs_tvm=True) as place:
        outcome = place.take_in(folder)
    nothing_fits = bool(outcome.refusals) and not outcome.record_ids and not outcome.already_there
    code = ExitCode.BAD_INPUT if nothing_fits else ExitCode.FINE
    if as_json:
        print_json(outcome.model_dump(mode="json"))
        return code
    taken, known = len(outcome.record_ids), outcome.already_there
    refused = max(outcome.refused, len(outcome.refusals))  # older services do not send the number
    say(f"{taken} records imported as claimed, {known} already known, {refused} lines rejected")
    for refusal in outcome.refusals[:MAX_SHOWN]:
        say(visible_line(f"  {refusal.file}, line {refusal.line}: {refusal.reason}"))
    if refused > MAX_SHOWN:
        say(f"  and {refused - MAX_SHOWN} more; --json lists the first {len(outcome.refusals)}")
    if taken or known:
        words = f"tunefarm records list --status claimed {_service_words(api, remote=remote)}"
        tell_next(words.rstrip())
    return code


@records.command()
def publish(
    module: ModuleName,
    trace: Annotated[str, typer.Option(help="JSON of a trace, or FILE.py:FUNCTION, your schedule function.")],
    function: Annotated[str | None, typer.Option(help="One of the module's functions.")] = None,
    target: TargetText = "",
    latency_us: Annotated[
        float, typer.Option(help="The claimed latency in microseconds. Default: one second, for an unknown latency.")
    ] = 1e6,
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """Publish your own schedule as a claimed record, which seeds later searches. It is built only once verified."""
    if not 0 < latency_us < LONGEST_LATENCY_US:
        raise BadInput("latency_us", f"{latency_us:g} is not a latency.", "Give a positive number of microseconds.")
    query = ModuleQuery(module=module, function=function, target=target, abi="stable")
    try:
        with record_place(api, remote=remote, needs_tvm=True) as place:
            record = place.publish(query, trace, latency_us / 1e6)
            name = place.workload_name(record)
    except BadInput as refusal:
        # The intake reports schedules under their name in job options.
        field = "trace" if refusal.field == "seed_traces" else refusal.field
        raise BadInput(field, refusal.problem, refusal.fix) from refusal
    if as_json:
        print_json(record.model_dump(mode="json"))
    else:
        print_rows(HEADINGS, [record_row(record, name)], empty="")
        tell_next(_tuning(module, _service_words(api, remote=remote), api))
    return ExitCode.FINE


@records.command()
def retract(
    record_id: RecordId,
    reason: Annotated[str, typer.Option(help="Why the record must not be used.")],
    api: Api = None,
    remote: Remote = False,
    as_json: AsJson = False,
) -> int:
    """Retract a record. It stays stored with the reason, and is never used again."""
    with record_place(api, remote=remote) as place:
        record = place.named(record_id)
        place.retract(record, reason)
    if as_json:
        print_json({"record_id": record.record_id, "status": RecordStatus.RETRACTED.value})
    else:
        say(f"record {record.record_id} is retracted")
        tell_next(f"tunefarm records list --status verified {_service_words(api, remote=remote)}".rstrip())
    return ExitCode.FINE


def _service_words(api: str | None, *, remote: bool) -> str:
    """The options with which the next command uses the same place."""
    return at_service(api) if remote or api is not None else ""


def _tuning(module: str, service: str, api: str | None) -> str:
    """The command that tunes a module in the same place."""
    if not service:
        return f"tunefarm tune {shlex.quote(module)}"
    return f"tunefarm submit {shlex.quote(module)} --wait {with_api(api)}".rstrip()


def _names(place: RecordPlace, records: Sequence[TuningRecord]) -> dict[str, str]:
    firsts = {record.key.workload_id: record for record in records}
    return {workload_id: place.workload_name(record) for workload_id, record in firsts.items()}
