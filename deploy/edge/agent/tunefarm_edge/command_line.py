"""The command ``tunefarm-agent``."""

import argparse
import json
import platform
import re
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from tunefarm_edge.refusal import Refused
from tunefarm_edge.runtime.bundle_library import LoadFailed, RunFailed
from tunefarm_edge.runtime.model import Model, NoRelease
from tunefarm_edge.service.agent import Agent
from tunefarm_edge.service.device_config import DeviceConfig, read_config, read_pinned_root, read_token, write_config
from tunefarm_edge.service.edge_service import EdgeService
from tunefarm_edge.service.serving import Serving
from tunefarm_edge.state.edge_root import DEFAULT_ROOT, EdgeRoot
from tunefarm_edge.state.floor import read_floor
from tunefarm_edge.trust.device_facts import device_facts
from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_edge.trust.source import FolderSource
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.device import EnrolmentRequest

_UNITS_S = {"h": 3_600, "d": 86_400}


def main(arguments: Sequence[str] | None = None) -> int:
    """0 after success, 1 if a release was refused or a model failed, 2 after wrong use."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except BadInput as error:
        print(f"{error.field}: {error.problem} {error.fix}", file=sys.stderr)
        return 2
    except (Refused, NoRelease, LoadFailed, RunFailed) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tunefarm-agent", description="Installs and runs signed releases of models.")
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help=f"folder of the device ({DEFAULT_ROOT})")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    enrol = commands.add_parser("enrol", help="exchange a one-time code for this device's token")
    enrol.add_argument("--url", required=True, help="of the service, such as https://farm.example.org/v1/edge")
    enrol.add_argument("--code", required=True, help="one-time code")
    enrol.add_argument("--name", default=platform.node() or "device", help="shown in the fleet (the host's name)")
    enrol.add_argument("--pinned-root", type=Path, required=True, help="root metadata that all trust starts from")
    enrol.add_argument("--device-class", help="id of this kind of device")
    enrol.set_defaults(command=_enrol)

    init = commands.add_parser("init", help="set up a device without network")
    init.add_argument("--channel", required=True)
    init.add_argument("--pinned-root", type=Path, required=True, help="root metadata that all trust starts from")
    init.add_argument("--device-class", help="id of this kind of device")
    init.set_defaults(command=_init)

    install = commands.add_parser("install", help="install the channel's current release from a folder")
    install.add_argument("--from", dest="folder", type=Path, required=True, help="a repository, such as a USB stick")
    install.add_argument("--max-age", help="accept a document this old, such as 30d or 12h, even if it has expired")
    install.set_defaults(command=_install)

    serve = commands.add_parser("serve", help="poll the service, install what it says, report")
    serve.add_argument("--once", action="store_true", help="poll once; exit with 1 if the service is not reached")
    serve.set_defaults(command=_serve)

    run = commands.add_parser("run", help="run the current release once")
    run.add_argument("inputs", nargs="*", type=Path, metavar="INPUT", help="a file of each input's bytes")
    run.add_argument(
        "--output", type=Path, required=True, help="file for the bytes of all outputs, one after the other"
    )
    run.add_argument("--entry", help="which function runs, of a release with several")
    run.set_defaults(command=_run)

    status = commands.add_parser("status", help="show as JSON what the device runs")
    status.set_defaults(command=_status)
    return parser


def _enrol(options: argparse.Namespace) -> int:
    pinned_root = read_pinned_root(options.pinned_root)  # a wrong path must not use up the code
    root = EdgeRoot(options.root)
    root.make_folders()
    with root.locked():
        client = EdgeService(HttpSource(options.url, None))
        facts = device_facts(root.path, options.device_class)
        enrolment = client.enrol(EnrolmentRequest(code=options.code, name=options.name, facts=facts))
        config = DeviceConfig(
            channel=enrolment.channel,
            base_url=options.url,
            edge_device_id=enrolment.edge_device_id,
            device_class_id=options.device_class,
        )
        write_config(root, config, pinned_root, enrolment.token)
    print(f"{enrolment.edge_device_id} follows the channel {enrolment.channel}")
    return 0


def _init(options: argparse.Namespace) -> int:
    root = EdgeRoot(options.root)
    root.make_folders()
    with root.locked():
        config = DeviceConfig(channel=options.channel, device_class_id=options.device_class)
        write_config(root, config, read_pinned_root(options.pinned_root), None)
    return 0


def _install(options: argparse.Namespace) -> int:
    root, config = _device(options)
    with root.locked():
        agent = Agent(root, config)
        agent.recover()
        outcome = agent.update(FolderSource(options.folder), max_age=_age(options.max_age))
    if outcome.refused is not None:
        raise outcome.refused
    print(f"{outcome.running} is {'installed' if outcome.changed else 'installed already'}")
    return 0


def _serve(options: argparse.Namespace) -> int:
    root, config = _device(options)
    if config.base_url is None:
        raise BadInput("base_url", "this device has no service.", "Run tunefarm-agent enrol.")
    with root.locked():
        service = EdgeService(HttpSource(config.base_url, read_token(root)))
        agent = Agent(root, config)
        serving = Serving(root, agent, service)
        if options.once:
            return 0 if serving.once() else 1
        serving.run()
    return 0


def _run(options: argparse.Namespace) -> int:
    model = Model.current(options.root, entry=options.entry)
    try:
        outputs = model.run([path.read_bytes() for path in options.inputs])
    except (ValueError, OSError) as error:
        raise BadInput("INPUT", f"{error}.", "Give a file of each input's bytes, in the model's order.") from None
    with options.output.open("wb") as file:
        for each in outputs:
            file.write(each)
    return 0


def _status(options: argparse.Namespace) -> int:
    root, config = _device(options)
    agent, floor = Agent(root, config), read_floor(root)
    shown = {
        "channel": config.channel,
        "running": agent.running,
        "sequence": floor.sequence,
        "failed": floor.failed.model_dump() if floor.failed else None,
        "waiting_reports": len(agent.spool.waiting()),
        "facts": agent.facts.model_dump(),
    }
    print(json.dumps(shown, indent=2))
    return 0


def _device(options: argparse.Namespace) -> tuple[EdgeRoot, DeviceConfig]:
    root = EdgeRoot(options.root)
    config = read_config(root)
    root.make_folders()
    return root, config


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})([hd])", text)
    if match is None:
        raise BadInput("--max-age", f"{text[:50]!r} is not an age.", "Write it as 30d or 12h.")
    return timedelta(seconds=int(match[1]) * _UNITS_S[match[2]])


if __name__ == "__main__":
    sys.exit(main())
