"""``tunefarm devices``: the devices of a service."""

from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.http.calls.device_calls import LaneVerb
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, with_api
from tunefarm.terminal.tables import print_json, print_list, print_rows
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.views.device import DeviceView, WorkerView
from tunefarm_schemas.views.quantities import latency_text
from tunefarm_schemas.visible_text import visible_line

devices = typer.Typer(help="List and control the devices of a service.", no_args_is_help=True)

DeviceId = Annotated[str, typer.Argument(metavar="DEVICE", help="Id of a device.")]
OneLane = Annotated[
    str | None, typer.Option("--lane", metavar="LANE", help="Only this lane of the device. Default: all.")
]
HEADINGS = ("device", "kind", "lanes", "in flight", "cores", "name", "class", "seen")
SHOWN_SAMPLES = 12
WORKER_HEADINGS = ("lane", "state", "asked", "in flight", "cores", "TVM", "seen", "reason")


@devices.command("list")
def list_devices(api: Api = None, as_json: AsJson = False) -> int:
    """List devices and their states."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.devices.list()
    return print_list(found, HEADINGS, _row, empty="no devices; start a worker", as_json=as_json)


@devices.command("show")
def show_device(device_id: DeviceId, api: Api = None, as_json: AsJson = False) -> int:
    """Show a device and its lanes."""
    from tunefarm.client import Client

    with Client(api) as client:
        device = client.devices.get(device_id)
        lanes = [worker for worker in client.workers.list() if worker.device_id == device_id]
    if as_json:
        print_json({**device.model_dump(mode="json"), "workers": [lane.model_dump(mode="json") for lane in lanes]})
    else:
        for heading, cell in zip(HEADINGS, _row(device), strict=True):
            say(visible_line(f"{heading:10} {cell}"))
        print_rows(WORKER_HEADINGS, [_worker_row(worker) for worker in lanes], empty="")
    return ExitCode.FINE


@devices.command("history")
def show_history(device_id: DeviceId, api: Api = None, as_json: AsJson = False) -> int:
    """Show the drift of a device's reference kernels, and the changes of its lanes, with reason and requester."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.devices.history(device_id)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return ExitCode.FINE
    rows = [("calibrated", *_times(found.reference, found.reference))]
    rows += [(each.at[:19], *_times(each.times, found.reference)) for each in found.samples[-SHOWN_SAMPLES:]]
    print_rows(("reference kernels", "compute", "bandwidth", "launch"), rows, empty="")
    say("")
    changes = [(each.at[:19], each.worker_id, each.kind, each.value, each.reason or "-") for each in found.changes]
    print_rows(("time", "lane", "change", "to", "reason"), changes, empty="no lane has changed")
    return ExitCode.FINE


@devices.command()
def drain(device_id: DeviceId, lane: OneLane = None, api: Api = None, as_json: AsJson = False) -> int:
    """Send a device no new orders; it finishes its running ones."""
    return _ask("drain", device_id, lane, api, as_json=as_json)


@devices.command()
def resume(device_id: DeviceId, lane: OneLane = None, api: Api = None, as_json: AsJson = False) -> int:
    """Resume sending orders to a device."""
    return _ask("resume", device_id, lane, api, as_json=as_json)


@devices.command()
def quarantine(device_id: DeviceId, lane: OneLane = None, api: Api = None, as_json: AsJson = False) -> int:
    """Quarantine a device whose times you do not trust, until you resume it."""
    return _ask("quarantine", device_id, lane, api, as_json=as_json)


@devices.command()
def maintenance(device_id: DeviceId, lane: OneLane = None, api: Api = None, as_json: AsJson = False) -> int:
    """Take a device out for maintenance."""
    return _ask("maintenance", device_id, lane, api, as_json=as_json)


def _ask(verb: LaneVerb, device_id: str, lane: str | None, api: str | None, *, as_json: bool) -> int:
    from tunefarm.client import Client

    with Client(api) as client:
        if lane is None:
            client.devices.ask(device_id, verb)
        else:
            if client.workers.get(lane).device_id != device_id:
                raise BadInput("--lane", f"the device has no lane {lane!r}.", f"See: tunefarm devices show {device_id}")
            client.workers.ask(lane, verb)
        device = client.devices.get(device_id)
    if as_json:
        print_json(device.model_dump(mode="json"))
    else:
        states = " ".join(f"{state}:{count}" for state, count in sorted(device.lane_states.items()))
        asked = f"device {device_id}" if lane is None else f"lane {lane} of device {device_id}"
        say(f"requested {verb} of {asked}; its lanes are {states}")
        tell_next(f"tunefarm devices show {device_id} {with_api(api)}".rstrip())
    return ExitCode.FINE


def _times(times: ReferenceKernelTimes, calibrated: ReferenceKernelTimes) -> tuple[str, str, str]:
    pairs = (
        (times.compute_s, calibrated.compute_s),
        (times.bandwidth_s, calibrated.bandwidth_s),
        (times.launch_s, calibrated.launch_s),
    )
    compute, bandwidth, launch = (f"{latency_text(now)} ({now / then:.2f}x)" if then else "-" for now, then in pairs)
    return compute, bandwidth, launch


def _row(device: DeviceView) -> tuple[str, ...]:
    return (
        device.device_id,
        device.kind,
        " ".join(f"{state}:{count}" for state, count in sorted(device.lane_states.items())),
        f"{device.in_flight}/{device.room}",
        str(device.device_class.cores),
        device.device_class.name,
        device.device_class_id[:12],
        device.seen_at[:19],
    )


def _worker_row(worker: WorkerView) -> tuple[str, ...]:
    return (
        worker.worker_id,
        worker.state,
        worker.requested,
        f"{worker.in_flight}/{worker.room}",
        str(worker.cores),
        worker.tvm_version,
        worker.seen_at[:19],
        worker.reason,
    )
