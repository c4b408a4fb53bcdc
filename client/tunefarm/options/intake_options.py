"""What ``tune`` and ``submit`` ask the intake, from the options as typed."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tunefarm.intake.intake_request import IntakeRequest
from tunefarm.intake.module_source import ModuleSource
from tunefarm.intake.python_input import intrinsics_file, schedule_source, seed_source_of_text
from tunefarm.options.input_option import inputs_of_texts
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.workload import Abi

IntrinsicsOption = Annotated[
    str | None,
    typer.Option(metavar="FILE.py", help="Registers the tensor intrinsics that your schedules name."),
]


def request_of_texts(
    module: ModuleSource,
    *,
    function: str | None,
    all_functions: bool,
    target: str,
    abi: Abi,
    space: str | None,
    seed_traces: Sequence[str] | None,
    inputs: Sequence[str] | None,
    intrinsics: str | None = None,
) -> IntakeRequest:
    """The request for ``module``. ``space``, ``seed_traces`` and ``intrinsics`` name files.

    ``inputs`` are ``NAME=SPEC``.

    Raises:
        BadInput: an option names nothing that can be read.
    """
    return IntakeRequest(
        module=module,
        function=function,
        all_functions=all_functions,
        target=target,
        abi=abi,
        space=None if space is None else schedule_source("space", space),
        seeds=tuple(seed_source_of_text("seed_traces", text) for text in seed_traces or ()),
        host_cores=usable_physical_cores(),
        inputs=inputs_of_texts(inputs or ()),
        intrinsics_file=intrinsics_file(intrinsics, is_used=space is not None or bool(seed_traces)),
    )
