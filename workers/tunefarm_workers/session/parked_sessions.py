"""Sessions of tasks of which no candidate runs, each with the task's inputs on the device."""

from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.session.device_session import DeviceSession


class ParkedSessions:
    """Keeps the sessions that were used last. An idle session computes nothing, but occupies memory of the device."""

    def __init__(self, most: int) -> None:
        """Keep ``most`` sessions; with 0, each is ended at once."""
        self._most = most
        self._parked: list[tuple[OpenTask, DeviceSession]] = []

    def park(self, task: OpenTask, session: DeviceSession) -> None:
        """Keep an idle session, and end the one that was parked longest if there are too many."""
        self._parked.append((task, session))
        while len(self._parked) > self._most:
            self._parked.pop(0)[1].close()

    def take(self, task: OpenTask) -> DeviceSession | None:
        """The session of ``task``, which its caller owns from now on; None if there is none, or its child has ended."""
        for number, (parked, session) in enumerate(self._parked):
            if parked is task:
                del self._parked[number]
                if session.child.exit() is None:
                    return session
                session.close()
                return None
        return None

    def end_of(self, exploration_id: str) -> None:
        """End the sessions with the inputs of this exploration."""
        self._end([each for each in self._parked if each[0].order.exploration_id == exploration_id])

    def end_all(self) -> bool:
        """End all sessions. Returns whether there were any."""
        had_some = bool(self._parked)
        self._end(list(self._parked))
        return had_some

    def _end(self, ended: list[tuple[OpenTask, DeviceSession]]) -> None:
        for each in ended:
            self._parked.remove(each)
            each[1].close()
