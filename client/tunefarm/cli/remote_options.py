"""Options that several commands share, most of them those that use a service."""

from typing import Annotated

import typer

Api = Annotated[
    str | None,
    typer.Option(
        "--api", metavar="URL", help="URL of the service. Default: TUNEFARM_API_URL, else the service on this machine."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job, or a prefix of it.")]
Remote = Annotated[
    bool,
    typer.Option(
        "--remote", help="Use the default service, as --api and TUNEFARM_API_URL do, not this machine's store."
    ),
]
