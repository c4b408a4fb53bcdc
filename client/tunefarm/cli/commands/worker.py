"""``tunefarm worker``: a lane of the farm on this host."""

from typing import Annotated

import typer

from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode

worker = typer.Typer(help="A lane of the farm on this host.", no_args_is_help=True)

LaneName = Annotated[
    str, typer.Argument(metavar="LANE", help="Name of a lane, or its worker's id as `tunefarm devices show` has it.")
]


@worker.command()
def start(
    cores: Annotated[str | None, typer.Option(help="Logical processors of this lane, such as 0-3,8.")] = None,
    name: Annotated[str | None, typer.Option(help="What the lane is called; the host's name and its cores.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, rpc for a board behind this host, or compile for lanes of other hosts."),
    ] = None,
    broker: Annotated[str | None, typer.Option(help="Redis; else TUNEFARM_BROKER_URL.")] = None,
    keep_trying: Annotated[
        bool, typer.Option("--keep-trying", help="Stay when the farm wants another version, until it does not.")
    ] = False,
    allow_missing_confinement: Annotated[
        bool,
        typer.Option("--allow-missing-confinement", help="Measure where candidates cannot be confined fully."),
    ] = False,
) -> int:
    """Measure for the farm until stopped. Stopping finishes what has begun and gives the rest back."""
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
    """Give a lane no new work; what it has, it ends."""
    return _ask(lane, "drain")


@worker.command()
def resume(lane: LaneName) -> int:
    """Give a lane work again."""
    return _ask(lane, "resume")


def _ask(lane: str, verb: str) -> int:
    """Through the farm's database, so that it works where no service runs."""
    from tunefarm.server.lane_request import ask_lane

    lane_id, state = ask_lane(lane, verb)
    say(f"lane {lane_id} is asked to {verb}; it is {state} now")
    return ExitCode.FINE
