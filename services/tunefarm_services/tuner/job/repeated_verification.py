"""Verifying what a search found, again where the device was lost on the way."""

import time
from typing import Final

from tunefarm_services.tuner.job.job_watch import REPORT_S, JobWatch
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.stored_answer import Finished
from tunefarm_services.tuner.verify.verifier import Verifier

VERIFY_AGAIN_AFTER_S: Final = (1.0, 10.0)
"""A worker that is started anew, or whose host is, is back by then."""


def verified(finisher: Verifier, run: ExplorationRun, watch: JobWatch) -> Finished:
    """The end of ``run``. What cannot be verified because no device is there is kept as a claim."""
    known = finisher.known(run)
    if known is not None:
        return known
    end = finisher.finish(run)
    for wait_s in VERIFY_AGAIN_AFTER_S:
        if not end.may_fare_better or not _rest(watch, wait_s):
            break
        end = finisher.finish(run)
    if watch.has_to_stop:
        return end
    if end.may_fare_better:
        finisher.claim(run)
    else:
        finisher.note_verified(run)
    return end


def _rest(watch: JobWatch, seconds: float) -> bool:
    """Let time pass; whether the job goes on."""
    deadline_s = time.monotonic() + seconds
    while watch.goes_on("verifying"):
        if time.monotonic() >= deadline_s:
            return True
        time.sleep(REPORT_S)
    return False
