"""Options that every command about a service has."""

from typing import Annotated

import typer

Api = Annotated[
    str | None, typer.Option("--api", metavar="URL", help="The service; TUNEFARM_API_URL or this machine's otherwise.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job, or its first characters.")]
Remote = Annotated[
    bool, typer.Option("--remote", help="Ask the known service; so do --api and TUNEFARM_API_URL. Else this machine.")
]
