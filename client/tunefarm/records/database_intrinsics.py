"""Tensor intrinsics in TVM's JSON database, which TVM does not know by itself."""

from pathlib import Path

from tunefarm.records.tvm_database_folder import read_database


def register_intrinsics(folder: str | Path) -> tuple[str, ...]:
    """Make the tensor intrinsics known to TVM that the records of a database tensorize with.

    TVM cannot open a database with such records otherwise. The content of the records is loaded in this process: use it
    for databases that you trust.

    Args:
        folder: the folder of ``database_workload.json`` and ``database_tuning_record.json``.

    Returns:
        The names that their users gave them, sorted.

    Raises:
        BadInput: the folder contains no database.
        ValueError: a record names an intrinsic without its content.
    """
    from tunefarm_search.validation.own_intrinsics import carried_names, register_carried, short_names

    records = read_database(str(folder))[1]
    for name in carried_names(records):
        register_carried(name)
    return short_names(records)
