"""The folder in which TVM keeps a JSON database."""

from pathlib import Path
from typing import Final

from tunefarm.intake.module_source import readable_file
from tunefarm.job_options import output_folder
from tunefarm.user_files import put_file, read_plain_file
from tunefarm_schemas.bad_input import BadInput

WORKLOADS_NAME: Final = "database_workload.json"
RECORDS_NAME: Final = "database_tuning_record.json"


def write_database(folder_text: str, workloads: str, records: str) -> None:
    """Write both files.

    Raises:
        BadInput: the folder cannot be written.
    """
    folder = output_folder(folder_text, field="folder")
    put_file(folder / WORKLOADS_NAME, workloads.encode(), field="folder")
    put_file(folder / RECORDS_NAME, records.encode(), field="folder")


def read_database(folder_text: str) -> tuple[str, str]:
    """The text of both files: workloads, records.

    Raises:
        BadInput: there is no database in the folder.
    """
    folder = Path(folder_text).expanduser()
    fix = f"Give a folder with {WORKLOADS_NAME} and {RECORDS_NAME}."
    return _text(folder / WORKLOADS_NAME, fix), _text(folder / RECORDS_NAME, fix)


def _text(path: Path, fix: str) -> str:
    plain = readable_file("folder", str(path), fix=fix)
    try:
        return read_plain_file(plain).decode(errors="replace")
    except OSError as error:
        raise BadInput("folder", f"{path.name} cannot be read ({error.strerror}).", fix) from error
