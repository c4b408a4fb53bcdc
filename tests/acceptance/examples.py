"""The examples of a document: its shell commands, Python programs and files, in their order."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.acceptance.command import ROOT

FENCE: Final = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE_NAME: Final = re.compile(r"# ([a-z_]+\.py)\n")
PROGRAM_NAME: Final = "example.py"

Kind = Literal["command", "program", "file"]


@dataclass(frozen=True)
class Example:
    """One line of shell, or one block of Python, below the heading ``section``."""

    document: str
    section: str
    kind: Kind
    text: str

    @property
    def name(self) -> str:
        """The text that identifies it: the command, the name of the file, or the last line of the program."""
        match = FILE_NAME.match(self.text)
        return match[1] if match is not None else self.text.strip().splitlines()[-1].strip()

    def put(self, folder: Path) -> Path:
        """Write a block of Python into ``folder``, under the file name in its first line."""
        path = folder / (self.name if self.kind == "file" else PROGRAM_NAME)
        path.write_text(self.text)
        return path


def examples_of(document: str) -> list[Example]:
    """All examples of a document, by its path below the root."""
    found: list[Example] = []
    for part in re.split(r"^## ", (ROOT / document).read_text(encoding="utf-8"), flags=re.MULTILINE):
        section = part.splitlines()[0]
        for language, block in FENCE.findall(part):
            if language == "python":
                kind: Kind = "file" if FILE_NAME.match(block) else "program"
                found.append(Example(document, section, kind, block))
            else:
                lines = block.replace("\\\n", " ").splitlines()
                found += [Example(document, section, "command", line) for line in lines if line.strip()]
    return found
