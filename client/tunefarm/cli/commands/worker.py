"""``tunefarm worker``: runs and controls a lane of the farm."""

from typing import Annotated

import typer

from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode

worker = typer.Typer(help="Run a lane of the farm on this host, or control a lane.", no_args_is_help=True)

LaneName = Annotated[
    str, typer.Argument(metavar="LANE", help="Name of a lane, or its worker id as in `tunefarm devices show`.")
]


@worker.command()
def start(
    cores: Annotated[str | None, typer.Option(help="Logical processors of this lane, such as 0-3,8.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the lane. Default: host name and cores.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, rpc for a board behind this host, or compile for lanes of other hosts."),
    ] = None,
    broker: Annotated[str | None, typer.Option(help="URL of Redis. Default: TUNEFARM_BROKER_URL.")] = None,
    keep_trying: Annotated[
        bool, typer.Option("--keep-trying", help="Retry while the farm requires another version.")
    ] = False,
    allow_missing_confinement: Annotated[
        bool,
        typer.Option("--allow-missing-confinement", help="Measure even if this host cannot fully confine candidates."),
    ] = False,
) -> int:
    """Measure for the farm until stopped. Stopping finishes running orders and returns the others."""
    from tunefarm.server.worker_start import start_worker

    given = {
        "worker_cores": cores,
        "worker_name": name,
        "worker_kind": kind,
        "broker_url": broker,
        "worker_allow_missing_confinement": allow_missing_confinement or None,
    }
    return start_worker({field: value for field, value in given.items() if value is not None}, keep_trying=keep_trying)


@worker.command()
def drain(lane: LaneName) -> int:
    """Send a lane no new orders; it finishes its running ones."""
    return _ask(lane, "drain")


@worker.command()
def resume(lane: LaneName) -> int:
    """Resume sending orders to a lane."""
    return _ask(lane, "resume")


def _ask(lane: str, verb: str) -> int:
    """Write the request to the farm's database, so that it works without a running service."""
    from tunefarm.server.lane_request import ask_lane

    lane_id, state = ask_lane(lane, verb)
    say(f"requested {verb} of lane {lane_id}; it is {state}")
    return ExitCode.FINE
