"""``tunefarm doctor``: checks that this machine can tune, and suggests fixes."""

from typing import Annotated

import typer

from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.views.quantities import counted
from tunefarm_schemas.visible_text import visible_line


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """Check this machine: TVM, processor, confinement, memory, settings."""
    from tunefarm.local.diagnosis import diagnose

    findings = diagnose()
    wrong = [finding for finding in findings if finding.level == "wrong"]
    if as_json:
        print_json({"fit": not wrong, "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        for finding in findings:
            say(visible_line(f"{finding.level:6} {finding.subject}: {finding.text}"))
            if finding.fix:
                say(f"       {finding.fix}")
        say("this machine is ready for tuning" if not wrong else f"{counted(len(wrong), 'problem')} to fix first")
        tell_next("tunefarm tune builtin:matmul_bias_relu" if not wrong else "tunefarm doctor")
    return ExitCode.FINE if not wrong else ExitCode.BAD_INPUT
