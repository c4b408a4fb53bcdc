"""The tuner as a child process of the service: started, started again when it dies, ended with its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

import structlog

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
SOUND_S: Final = 60.0
"""A child that lived so long has earned a quick start again."""
END_S: Final = 1.6

log = structlog.get_logger()


class TunerChild:
    """One child, watched by a thread.

    The thread starts it, because the kernel ends the child when that thread does, which is when this process dies.
    """

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        """``words`` follow ``tunefarm tuner`` on the child's command line."""
        self._command = [
            sys.executable,
            "-m",
            "tunefarm.cli.command_line",
            "tuner",
            *words,
            "--parent",
            str(os.getpid()),
        ]
        self._environment = environment
        self._ending = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="tuner child", daemon=True)

    def start(self) -> None:
        """Start it; returns at once."""
        self._thread.start()

    def end(self) -> None:
        """Have it give its jobs back and end, and wait for that; after a moment it is killed, which loses nothing."""
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._ending.is_set():
            began_s = time.monotonic()
            # A session of its own: Ctrl-C in a terminal reaches the parent alone, which ends it in order.
            with subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, start_new_session=True
            ) as process:
                code = self._follow(process)
            if self._ending.is_set():
                return
            if time.monotonic() - began_s > SOUND_S:
                pause_s = FIRST_PAUSE_S
            log.error("the tuner ended and is started again", exit_code=code, after_s=pause_s)
            self._ending.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _follow(self, process: "subprocess.Popen[bytes]") -> int:
        while process.poll() is None:
            if self._ending.wait(0.05):
                process.send_signal(signal.SIGTERM)
                try:
                    return process.wait(END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
        return process.wait()
