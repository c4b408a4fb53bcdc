"""Checks a shipped library against the function that it was compiled from."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.input_spec import InputExample
from tunefarm_schemas.tuning.measurement import MeasureTask, Timing
from tunefarm_workers.artifact.artifact_order import artifact_order
from tunefarm_workers.artifact.fresh_inputs import FreshInputs
from tunefarm_workers.artifact.fresh_runner import FreshRunner
from tunefarm_workers.conversation.argument import Distribution
from tunefarm_workers.conversation.messages import InputsOrder
from tunefarm_workers.correctness.referee import Doubt, Referee
from tunefarm_workers.lane.deadlines import Deadlines
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.threads.shared_cache_wait import SharedCacheWait
from tunefarm_workers.threads.thread_cores import cores_for
from tunefarm_workers.timing.host_turn import own_turn

_REFERENCE_S: Final = 300.0
_TURN_S: Final = 1.0
_TIMED_S: Final = 10.0
_REBUILD: Final = "Build it again: tunefarm artifact build RECORD --output DIR"


@dataclass(frozen=True)
class ArtifactCheck:
    """The outcome. ``worst_error`` is in units of the tolerance: at most 1 is correct."""

    worst_error: float
    timing: Timing


def check_artifact(
    fork_server: ForkServer,
    manifest: ArtifactManifest,
    module_json: str,
    library: Path,
    limits: Limits,
    input_examples: tuple[InputExample, ...] = (),
    callees: Collection[str] = (),
) -> ArtifactCheck:
    """Run ``library`` and the untuned function in separate fresh processes, compare, and time the library.

    Everything that reads ``module_json`` or runs compiled code is a confined child of ``fork_server``.
    ``input_examples`` are the examples that the manifest's input specs name; ``callees`` are external functions that
    the module may call.

    Raises:
        BadInput: the module or the manifest is invalid, or the function's outputs cannot be verified.
        ChildFailed: the library does not load or run.
        ForkFailed: no child can be forked.
    """
    task = _task_with_reference(fork_server, manifest, module_json, limits, input_examples, callees)
    try:
        with (
            FreshInputs(fork_server, InputsOrder.of(task.task_order(), task.arguments), limits) as inputs,
            FreshRunner(fork_server, inputs, manifest.num_cores, library.parent, limits, lambda: True) as runner,
        ):
            inputs.wait(lambda: True)
            runner.wait_until_ready()
            error = task.referee.error_of(runner.outputs(artifact_order(manifest, library, inputs.tensors)))
            SharedCacheWait(cores_for(manifest.num_cores)).wait(manifest.latency_s, runner.shares_cache)
            with own_turn(_TIMED_S):
                return ArtifactCheck(worst_error=error, timing=runner.time())
    finally:
        task.close()


def _task_with_reference(
    fork_server: ForkServer,
    manifest: ArtifactManifest,
    module_json: str,
    limits: Limits,
    input_examples: tuple[InputExample, ...],
    callees: Collection[str],
) -> OpenTask:
    """Open the artifact's task and compute the reference outputs of its first set of inputs."""
    if manifest.protocol_id not in PROTOCOLS:
        raise BadInput("folder", f"its manifest names the unknown protocol {manifest.protocol_id[:40]!r}.", _REBUILD)
    order = MeasureTask(
        exploration_id=manifest.artifact_id,
        workload_id=manifest.workload_id,
        module_json=module_json,
        target=manifest.target,
        num_cores=manifest.num_cores,
        protocol_id=manifest.protocol_id,
        abi=manifest.abi,
        input_specs=manifest.input_specs,
        input_examples=input_examples,
        callees=tuple(callees),
    )
    task = _with_first_reference(fork_server, order, limits, "normal")
    if task.referee.doubt is Doubt.NOT_FINITE:
        task.close()
        task = _with_first_reference(fork_server, order, limits, "positive")
    doubt = task.referee.doubt
    if doubt is not None:
        problem = f"it cannot be compared with its function: {doubt.value}. {task.referee.doubt_text}".strip()
        task.close()
        raise BadInput("folder", problem, _REBUILD)
    return task


def _with_first_reference(
    fork_server: ForkServer, order: MeasureTask, limits: Limits, distribution: Distribution
) -> OpenTask:
    """Open the task and wait until its referee has the first reference outputs, or a doubt."""
    task = OpenTask(fork_server, order, limits, Deadlines(), lambda _: None, distribution=distribution)
    referee = task.referee
    assert isinstance(referee, Referee), "an artifact's function is unscheduled"
    deadline_s = time.monotonic() + _REFERENCE_S
    while not referee.knows(1) and referee.doubt is None:
        try:
            referee.received(referee.child.channel.receive(timeout_s=_TURN_S))
        except ChannelClosed:
            referee.ended()
        except TimeoutError:
            pass
        if referee.task_process_is_lost or time.monotonic() > deadline_s:
            why = "was killed" if referee.task_process_is_lost else f"took longer than {_REFERENCE_S:.0f} s"
            task.close()
            raise BadInput("folder", f"the function that it is compared with {why}.", "Try again.")
    # Stop the child now: its further inputs and its spinning kernel threads would disturb the timing that follows.
    referee.close()
    return task
