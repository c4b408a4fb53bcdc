"""Verifies the result of a search, and retries if the device is lost meanwhile."""

import time
from typing import Final

from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.job_watch import REPORT_S
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.stored_answer import Finished
from tunefarm_services.tuner.verify.verifier import Verifier

VERIFY_AGAIN_AFTER_S: Final = (1.0, 10.0)
"""Retry delays, long enough for a worker or its host to restart."""


def verify(verifier: Verifier, exploration: ExplorationRun, run: JobRun) -> bool:
    """Verify and record the best schedule of one exploration. Returns False if the job must stop first."""
    if exploration.best_latency_s is None:
        if not exploration.was_left_untried:
            verifier.check_untuned(exploration)
        return True
    end = _verified(verifier, exploration, run)
    if end.failure is not None and run.watch.must_stop:
        return False
    run.finished[exploration.exploration_id] = end
    if end.record is not None:
        exploration.add_recorded(end.record.trace, end.record.latency_s, run.elapsed_s())
    return not run.watch.must_stop


def _verified(verifier: Verifier, exploration: ExplorationRun, run: JobRun) -> Finished:
    """Verify with retries.

    A lost device must not cost the result of a long search. If it does not return in time, or no lane is left after the
    deadline, the incumbent is stored as a claim, and the exploration stays unverified, so that the next job verifies it
    from the stored trials.
    """
    known = verifier.known(exploration)
    if known is not None:
        return known
    end = verifier.finish(exploration)
    for wait_s in VERIFY_AGAIN_AFTER_S:
        if not end.is_retryable or run.is_deserted or not _wait(run, wait_s):
            break
        end = verifier.finish(exploration)
    if (end.is_retryable or run.is_deserted) and not run.watch.must_stop:
        verifier.claim(exploration)
    elif not run.watch.must_stop:
        verifier.note_verified(exploration)
    return end


def _wait(run: JobRun, seconds: float) -> bool:
    """Wait while the lease is renewed. Returns False if the job must stop."""
    deadline_s = time.monotonic() + seconds
    while run.poll("verifying"):
        if time.monotonic() >= deadline_s:
            return True
        time.sleep(REPORT_S)
    return False
