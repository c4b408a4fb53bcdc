"""Serves the orders of a compile lane: accepts them, compiles, and replies."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from tunefarm_sandbox.fork_server.fork_server import ForkFailed
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import Cancellation, TaskMissing
from tunefarm_workers.broker.accepted_orders import AcceptedOrder
from tunefarm_workers.broker.blobs import Blobs, BlobsUnavailable
from tunefarm_workers.broker.celery_intake import Taker
from tunefarm_workers.broker.order_keeper import OrderKeeper
from tunefarm_workers.broker.order_server import Send
from tunefarm_workers.broker.task_blob import TaskNotThere
from tunefarm_workers.builder.checked_library import checked_library
from tunefarm_workers.compile.compile_messages import (
    COMPILE,
    CandidateWanted,
    CompileBegan,
    CompileFailed,
    CompileMessage,
    CompileSucceeded,
    ReferencesWanted,
)
from tunefarm_workers.compile.known_tasks import KnownTasks
from tunefarm_workers.conversation.child_answer import ChildFailed, canceled
from tunefarm_workers.session.compiler.compiler import Build, Compiler
from tunefarm_workers.session.device.session_messages import LibraryShape

log = structlog.get_logger()


class CompileServer(OrderKeeper):
    """One lane. Orders arrive on Celery's thread, which ``compile`` blocks while the lane is full."""

    def __init__(
        self,
        compiler: Compiler,
        code_generator: str,
        blobs: Blobs,
        send: Send,
        lane_id: str,
        *,
        room: int,
        is_alive: Callable[[], bool],
        show: Callable[[], None],
    ) -> None:
        """``is_alive`` tells whether children can be forked; ``show`` is called each second while it accepts work."""
        super().__init__(send, lane_id, room)
        self._compiler = compiler
        self._code_generator = code_generator
        self._blobs = blobs
        self._is_alive = is_alive
        self._show = show
        self._tasks = KnownTasks(blobs)
        self._builders = ThreadPoolExecutor(max_workers=room, thread_name_prefix="build")

    def start(self, on_crash: Callable[[], None]) -> None:
        """Set ``on_crash``, which is called when the lane can compile no more."""
        self._on_crash = on_crash

    def takers(self) -> Mapping[str, Taker[Any]]:
        """The handler of each kind of order."""
        return {COMPILE: Taker(CompileMessage, self.compile)}

    def compile(self, order: CompileMessage) -> None:
        """Accept an order. Returns when there may be room for another."""
        wanted = order.wanted
        exploration_id = wanted.exploration_id if isinstance(wanted, CandidateWanted) else ""
        held = AcceptedOrder(order.order_id, order.farm_id, 0, "", exploration_id, None)
        if self._held.hold(held) and self._wait_for_room(held) and self._held.begin(held):
            self._builders.submit(self._carry_out, held, order)

    def cancel(self, cancellation: Cancellation) -> None:
        """Mark orders as canceled. Their builds notice it within half a second."""
        self._held.cancel(cancellation)

    def take_work(self, wanted: bool) -> None:
        """Set whether orders may begin. While they may, requesters see the pool as alive."""
        super().take_work(wanted)
        if wanted:
            self._show()

    def close(self) -> None:
        """End the threads. The compiler's owner closes it."""
        self._giving_back = True
        self._builders.shutdown(wait=False, cancel_futures=True)

    def _busy(self) -> int:
        return len(self._held.begun())

    def _break_off(self) -> None:
        """Do nothing: the waiting builds notice that work is given back."""

    def _end_canceled(self, held: AcceptedOrder) -> None:
        self._held.end(held, None)

    def _carry_out(self, held: AcceptedOrder, order: CompileMessage) -> None:
        """Execute one order, on a thread of the pool."""
        try:
            if not self._is_wanted(held):
                raise canceled()
            self._send(held.farm_id, CompileBegan(lane_id=self._lane_id, order_id=held.ident))
            self._held.end(held, self._compiled(held, order))
        except ChildFailed as failed:
            self._end_failed(held, failed)
        except TaskNotThere as missing:
            log.warning("a task is not in the blob store", reason=str(missing), farm_id=held.farm_id)
            digest = order.wanted.task_digest if isinstance(order.wanted, CandidateWanted) else ""
            self._held.end(held, TaskMissing(lane_id=self._lane_id, task_digest=digest, ids=(held.ident,)))
        except BlobsUnavailable as away:
            self._suffer(away, held)
        except ForkFailed as error:
            if self._is_alive():
                self._answer(held, FailureReason.DEVICE_LOST, f"No child could be forked: {error}")
            else:
                self._fail(error)
        except Exception as error:  # noqa: BLE001 - the lane cannot continue; its owner decides
            self._fail(error)

    def _compiled(self, held: AcceptedOrder, order: CompileMessage) -> CompileSucceeded:
        """Compile a library and store it. Raises ChildFailed, TaskNotThere, BlobsUnavailable, ForkFailed."""
        build = self._begin(order.wanted)
        began_s = time.monotonic()
        try:
            shape, code_generator, library = self._wait(build, order.wanted, held)
        finally:
            build.close()
        build_s = time.monotonic() - began_s
        log.debug("compiled", exploration_id=held.exploration_id, worker=order.worker, build_s=round(build_s, 3))
        return CompileSucceeded(
            lane_id=self._lane_id,
            order_id=held.ident,
            code_generator=code_generator,
            library_digest=self._blobs.put(library),
            build_s=build_s,
            shape=shape,
        )

    def _begin(self, wanted: CandidateWanted | ReferencesWanted) -> Build:
        if isinstance(wanted, ReferencesWanted):
            return self._compiler.references(wanted.target, wanted.threads)
        return self._compiler.candidate(self._tasks.task(wanted.task_digest, wanted.exploration_id), wanted.trace)

    def _wait(
        self, build: Build, wanted: CandidateWanted | ReferencesWanted, held: AcceptedOrder
    ) -> tuple[LibraryShape | None, str, bytes]:
        if isinstance(wanted, ReferencesWanted):
            built, library = build.wait_for_references(lambda: self._is_wanted(held))
            return None, built.code_generator, checked_library(library, wanted.target)
        task = self._tasks.task(wanted.task_digest, wanted.exploration_id)
        shape, library = build.wait(lambda: self._is_wanted(held))
        return shape, self._code_generator, checked_library(library, task.target, task.callees)

    def _is_wanted(self, held: AcceptedOrder) -> bool:
        return not (self._giving_back or self.crash is not None or self._held.is_canceled(held))

    def _end_failed(self, held: AcceptedOrder, failed: ChildFailed) -> None:
        if self._held.is_canceled(held):
            self._held.end(held, None)
        elif self._giving_back:
            self._give_back(held)
        elif failed.may_be_tried_again:  # a killed child is no fault of what it compiled
            self._answer(held, FailureReason.DEVICE_LOST, failed.failure.message)
        else:
            self._held.end(held, CompileFailed(lane_id=self._lane_id, order_id=held.ident, failure=failed.failure))

    def _fail(self, error: Exception) -> None:
        """End the lane after a crash. Orders are not given back: one of them may have caused it."""
        if not self._has_crashed(error):
            return
        for held in self._held.all():
            self._held.end(held, None)
        self._on_crash()

    def _answer(self, held: AcceptedOrder, reason: FailureReason, message: str) -> None:
        failure = TrialFailure(reason=reason, message=message[:4000])
        self._held.end(held, CompileFailed(lane_id=self._lane_id, order_id=held.ident, failure=failure))
