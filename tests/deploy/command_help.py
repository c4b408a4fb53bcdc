"""What our commands say of themselves."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def check_words(words: Sequence[str]) -> None:
    """Fails where there is no command that these words begin with, or where it lacks an option among them."""
    names = [word for word in words[:2] if re.fullmatch("[a-z]+", word)]
    check_options([sys.executable, "-m", "tunefarm.command_line", *names], words)


def check_options(command: Sequence[str], words: Sequence[str]) -> None:
    """Fails where ``command`` tells nothing of itself, or of an option among ``words``."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert set(OPTION.findall(" ".join(words))) <= set(re.findall(r"--[a-z][a-z-]*", shown.stdout))
