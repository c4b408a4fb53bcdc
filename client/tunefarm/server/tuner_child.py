"""The tuner as a child process of the service: restarted when it dies, stopped with its parent."""

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
"""A child that ran at least this long is restarted after the shortest pause."""
END_S: Final = 1.6

log = structlog.get_logger()


class TunerChild:
    """One child, watched by a thread.

    The watching thread also starts the child: the kernel kills the child when the thread that started it ends, so a
    thread that lives as long as this process must start it.
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
        """Start the child; returns at once."""
        self._thread.start()

    def end(self) -> None:
        """Stop the child, which releases its jobs, and wait for it. Kills it after a moment, which loses nothing."""
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._ending.is_set():
            began_s = time.monotonic()
            # In its own session, so that Ctrl-C reaches only the parent, which then stops the child in order.
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
