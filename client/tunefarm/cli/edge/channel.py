"""``tunefarm channel``: channels and the rollouts of their releases."""

import shlex
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.http.calls.fleet_calls import ChannelVerb
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, with_api
from tunefarm.terminal.tables import print_json, print_list, print_rows
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.views.fleet import ChannelView
from tunefarm_schemas.visible_text import visible_line

channel = typer.Typer(help="Show channels, and control the rollouts of their releases.", no_args_is_help=True)

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of a channel.")]
Reason = Annotated[str, typer.Option(help="Why, for the audit log.")]
DAY_S: Final = 86_400.0
HEADINGS = ("channel", "release", "previous", "state", "stage", "since", "document expires", "reason")


@channel.command("list")
def list_channels(api: Api = None, as_json: AsJson = False) -> int:
    """List channels and how far the release of each has come."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.channels.list()
    return print_list(found, HEADINGS, _row, empty="no channels; nothing is published", as_json=as_json)


@channel.command("show")
def show_channel(name: ChannelName, api: Api = None, as_json: AsJson = False) -> int:
    """Show a channel, its rollout and its gate."""
    from tunefarm.client import Client

    with Client(api) as client:
        _print_channel(client.channels.get(name), as_json=as_json)
    return ExitCode.FINE


@channel.command("policy")
def show_or_set_policy(
    name: ChannelName,
    retune: Annotated[
        bool | None, typer.Option("--retune/--no-retune", help="Whether drift in the field opens jobs.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Candidates of each job.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Maximum duration of each search; 0 for no limit.")] = None,
    cool_down_days: Annotated[
        float | None, typer.Option(help="Minimum days between two jobs for the same record.")
    ] = None,
    reason: Reason = "",
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Show the retune policy of a channel, or change the given fields.

    With --retune, a record is tuned again once the field shows, with the confidence of the channel's gate, that devices
    are slower than the record's interval permits.
    """
    from tunefarm.client import Client

    given = {
        "enabled": retune,
        "trials": trials,
        "seconds": seconds,
        "cool_down_s": None if cool_down_days is None else cool_down_days * DAY_S,
    }
    changes: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    if seconds == 0:
        changes["seconds"] = None
    with Client(api) as client:
        policy = client.channels.policy(name)
        if changes:
            policy = client.channels.set_policy(name, _changed(policy, changes), reason)
    if as_json:
        print_json(policy.model_dump(mode="json"))
    else:
        say(_policy_text(policy))
    return ExitCode.FINE


@channel.command("evidence")
def show_evidence(name: ChannelName, api: Api = None, as_json: AsJson = False) -> int:
    """Show what devices reported of the release: what the gate knows, failures by reason, devices by release."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.channels.evidence(name)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return ExitCode.FINE
    say(visible_line(f"{found.release}: the gate would {found.verdict} now: {found.verdict_reason}"))
    rows = [
        ("reported", f"{found.heard} of {found.devices} devices of the stage"),
        ("with a latency", f"{found.with_latency}, {found.outstanding} more may follow in time"),
        ("median as expected", f"{found.within_p50} of {found.compared}"),
        ("95th percentile", f"{found.within_p95} of {found.compared} as expected"),
        *((f"failed: {reason}", str(number)) for reason, number in sorted(found.failures.items())),
        *((f"runs {release or 'nothing'}", str(number)) for release, number in sorted(found.by_release.items())),
    ]
    print_rows(("of the stage", "devices"), rows, empty="")
    return ExitCode.FINE


@channel.command("pause")
def pause_rollout(name: ChannelName, reason: Reason = "", api: Api = None, as_json: AsJson = False) -> int:
    """Pause the rollout: devices stay with what they run, and no stage advances."""
    return _ask(name, "pause", reason, api, as_json=as_json)


@channel.command("resume")
def resume_rollout(name: ChannelName, reason: Reason = "", api: Api = None, as_json: AsJson = False) -> int:
    """Resume a paused or halted rollout in its stage, whose deadline begins again."""
    return _ask(name, "resume", reason, api, as_json=as_json)


@channel.command("advance")
def advance_rollout(name: ChannelName, reason: Reason = "", api: Api = None, as_json: AsJson = False) -> int:
    """Advance to the next stage without the gate, or finish after the last."""
    return _ask(name, "advance", reason, api, as_json=as_json)


@channel.command("roll-back")
def roll_back_rollout(name: ChannelName, reason: Reason = "", api: Api = None, as_json: AsJson = False) -> int:
    """Roll back: all devices run the previous release."""
    return _ask(name, "roll-back", reason, api, as_json=as_json)


@channel.command("stop")
def stop_channel(name: ChannelName, reason: Reason = "", api: Api = None, as_json: AsJson = False) -> int:
    """Stop in an emergency: no device of the channel runs a model until the rollout is resumed or rolled back."""
    return _ask(name, "stop", reason, api, as_json=as_json)


def _ask(name: str, verb: ChannelVerb, reason: str, api: str | None, *, as_json: bool) -> int:
    from tunefarm.client import Client

    with Client(api) as client:
        _print_channel(client.channels.ask(name, verb, reason), as_json=as_json)
    if not as_json:
        tell_next(f"tunefarm channel show {shlex.quote(name)} {with_api(api)}".rstrip())
    return ExitCode.FINE


def _changed(policy: RetunePolicy, changes: dict[str, Any]) -> RetunePolicy:
    try:
        return RetunePolicy.model_validate(policy.model_dump() | changes)
    except ValidationError as error:
        first = error.errors()[0]
        option = "--cool-down-days" if first["loc"] == ("cool_down_s",) else f"--{first['loc'][0]}"
        fix = "Give a minute to ten years." if first["loc"] == ("cool_down_s",) else "Give a positive number."
        raise BadInput(option, f"{first['input']!r} is out of range.", fix) from error


def _policy_text(policy: RetunePolicy) -> str:
    if not policy.enabled:
        return "off: drift in the field raises alerts and opens no job"
    limit = "" if policy.seconds is None else f" or {policy.seconds:g} s"
    days = policy.cool_down_s / DAY_S
    return (
        f"on: drift in the field opens a job of {policy.trials} trials{limit}, for each record once in {days:.3g} days"
    )


def _print_channel(view: ChannelView, *, as_json: bool) -> None:
    if as_json:
        print_json(view.model_dump(mode="json"))
        return
    for heading, cell in zip(HEADINGS, _row(view), strict=True):
        say(visible_line(f"{heading:17} {cell}"))
    gate = view.gate
    stages = ", ".join(f"{percent}%" for percent in gate.stages_percent)
    say(f"{'gate':17} stages {stages}; {gate.confidence:.0%} confidence, tolerance {gate.tolerance:.0%}")
    say(f"{'':17} at most {gate.max_failed_percent:g}% failed, silent devices after {gate.deadline_s / 3600:g} h")


def _row(view: ChannelView) -> tuple[str, ...]:
    return (
        view.channel,
        view.current,
        view.previous or "-",
        view.state,
        f"{view.stage_percent}%",
        view.stage_began_at[:19],
        view.expires_at[:19],
        view.reason or "-",
    )
