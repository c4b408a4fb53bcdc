"""Verifying what a search found, again where the device was lost on the way."""

import time
from typing import Final

from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.job_watch import REPORT_S
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.stored_answer import Finished
from tunefarm_services.tuner.verify.verifier import Verifier

VERIFY_AGAIN_AFTER_S: Final = (1.0, 10.0)
"""A worker that is started anew, or whose host is, is back by then."""


def verify(verifier: Verifier, exploration: ExplorationRun, run: JobRun) -> bool:
    """Verify and record the best of one exploration; False when the job was told to stop before that was done."""
    if exploration.best_latency_s is None:
        if not exploration.was_left_untried:
            verifier.look_for_reason(exploration)
        return True
    end = _end_of(verifier, exploration, run)
    if end.failure is not None and run.watch.has_to_stop:
        return False
    run.finished[exploration.exploration_id] = end
    if end.record is not None:
        exploration.concluded(end.record.trace, end.record.latency_s, run.elapsed_s())
    return True


def _end_of(verifier: Verifier, exploration: ExplorationRun, run: JobRun) -> Finished:
    """What cannot be verified because no device is there is kept as a claim."""
    known = verifier.known(exploration)
    if known is not None:
        return known
    end = verifier.finish(exploration)
    for wait_s in VERIFY_AGAIN_AFTER_S:
        if not end.may_fare_better or not _rest(run, wait_s):
            break
        end = verifier.finish(exploration)
    if end.may_fare_better and not run.watch.has_to_stop:
        verifier.claim(exploration)
    elif not run.watch.has_to_stop:
        verifier.note_verified(exploration)
    return end


def _rest(run: JobRun, seconds: float) -> bool:
    """Let time pass; whether the job goes on."""
    deadline_s = time.monotonic() + seconds
    while run.goes_on("verifying"):
        if time.monotonic() >= deadline_s:
            return True
        time.sleep(REPORT_S)
    return False
