"""The folder of a TVM JSON database."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tunefarm.intake.module_source import readable_file
from tunefarm.options.job_options import output_folder
from tunefarm.terminal.user_files import LARGEST_FILE_BYTES, open_plain_file, put_file, read_plain_file, require_named
from tunefarm_schemas.bad_input import BadInput

WORKLOADS_NAME: Final = "database_workload.json"
RECORDS_NAME: Final = "database_tuning_record.json"
OWN_INTRINSIC: Final = '"tunefarm.own/'
"""A copy of the beginning of the names in ``tunefarm_search.validation.own_intrinsics``, which imports TVM."""
_FIX: Final = f"Give a folder with {WORKLOADS_NAME} and {RECORDS_NAME}."


def write_database(folder_text: str, workloads: str, records: str) -> None:
    """Write both files.

    Raises:
        BadInput: the folder cannot be written.
    """
    folder = output_folder(folder_text, field="folder")
    put_file(folder / WORKLOADS_NAME, workloads.encode(), field="folder")
    put_file(folder / RECORDS_NAME, records.encode(), field="folder")


def carries_intrinsics(folder_text: str) -> bool:
    """Whether records of the database tensorize with intrinsics of users.

    Raises:
        BadInput: the folder contains no database.
    """
    return OWN_INTRINSIC in read_database(folder_text)[1]


def opening(folder_text: str) -> str:
    """The command that opens the database in TVM.

    Raises:
        BadInput: the folder contains no database.
    """
    folder = str(Path(folder_text).expanduser().resolve())
    before = f"import tunefarm; tunefarm.register_intrinsics({folder!r}); " if carries_intrinsics(folder) else ""
    code = f"from tvm.s_tir.meta_schedule.database import JSONDatabase; database = JSONDatabase(work_dir={folder!r})"
    return f"python -c {shlex.quote(before + code)}"


def read_database(folder_text: str) -> tuple[str, str]:
    """The text of both files: workloads, records.

    Raises:
        BadInput: the folder contains no database.
    """
    folder = _folder(folder_text)
    return _text(folder / WORKLOADS_NAME), _text(folder / RECORDS_NAME)


def database_lines(folder_text: str) -> tuple[Iterator[str], Iterator[str]]:
    """The lines of both files, read lazily: workloads, records.

    Raises:
        BadInput: the folder contains no database.
    """
    from tunefarm_services.exchange.database_reading import (  # not installed with the client alone
        LONGEST_RECORD,
        LONGEST_WORKLOAD,
    )

    folder = _folder(folder_text)
    return (
        _lines(_readable(folder / WORKLOADS_NAME), LONGEST_WORKLOAD),
        _lines(_readable(folder / RECORDS_NAME), LONGEST_RECORD),
    )


def _folder(text: str) -> Path:
    require_named("folder", text, "folder")
    return Path(text).expanduser()


def _lines(path: Path, longest: int) -> Iterator[str]:
    """Lines without line ends. Truncates lines that exceed the limit, which the import then rejects."""
    with _readably(path), open_plain_file(path) as file:
        while line := file.readline(longest + 2):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
                pass
            yield text


def _text(path: Path) -> str:
    with _readably(path):
        return read_plain_file(_readable(path, LARGEST_FILE_BYTES)).decode(errors="replace")


def _readable(path: Path, largest_bytes: int | None = None) -> Path:
    return readable_file("folder", str(path), fix=_FIX, largest_bytes=largest_bytes)


@contextmanager
def _readably(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput("folder", f"{path.name} cannot be read ({error.strerror}).", _FIX) from error
