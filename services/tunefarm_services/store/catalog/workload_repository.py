"""Workloads, with their modules as blobs."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter
from sqlalchemy import BindParameter, Connection, bindparam, select, update

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.roofline import Work
from tunefarm_schemas.tuning.workload import TensorArgument, Workload
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing, NotFound, StoreConflict
from tunefarm_services.store.stored import StoredWorkload
from tunefarm_services.store.tables import WorkloadTable
from tunefarm_services.store.tenants.sharing_group_repository import partners_of

_NUMBER: Final = re.compile(r"(?<=[^\W\d_])\d+(?=_|$)")
"""A number after a letter at the end of a part of a name; the 2 of ``conv2d`` is not at the end."""
_ARGUMENTS: Final = TypeAdapter(tuple[TensorArgument, ...])
_OF_TENANT: Final = select(WorkloadTable).where(WorkloadTable.tenant == bindparam("tenant"))
_BY_ID: Final = _OF_TENANT.where(WorkloadTable.workload_id == bindparam("workload_id"))
_TENANTS: Final[BindParameter[str]] = bindparam("tenants", expanding=True)
# The tenant's own come first.
_BY_HASH: Final = (
    select(WorkloadTable)
    .where(
        WorkloadTable.tenant.in_(_TENANTS),
        WorkloadTable.structural_hash == bindparam("structural_hash"),
        WorkloadTable.tvm_version == bindparam("tvm_version"),
    )
    .order_by(WorkloadTable.tenant != bindparam("tenant"), WorkloadTable.workload_id)
)

_WITH_WORK: Final = (
    update(WorkloadTable)
    .where(WorkloadTable.tenant == bindparam("of_tenant"), WorkloadTable.workload_id == bindparam("of_workload_id"))
    .values(work=bindparam("work"))
)


class WorkloadRepository(Repository):
    """Workloads of a tenant."""

    @retried
    def put(self, tenant: str, workload: Workload) -> Workload:
        """Store a workload once and return the stored one: the first name is kept, and work that was unknown is added.

        Raises StoreUnavailable, and ValueError unless ``workload_id`` is the digest of the module.
        """
        if digest(workload.module_json) != workload.workload_id:
            raise ValueError("workload_id is not the digest of module_json")
        module = self._put(workload.module_json.encode())
        with self._database.writing() as connection:
            self._keep(connection, module)
            if connection.execute(insert_once(connection, WorkloadTable), _values(tenant, workload)).rowcount:
                return workload
            row = connection.execute(_BY_ID, {"tenant": tenant, "workload_id": workload.workload_id}).one()
            if (row.structural_hash, row.tvm_version) != (workload.structural_hash, workload.tvm_version):
                raise StoreConflict("workload", workload.workload_id)
            stored = _workload(row, workload.module_json)
            if stored.work is not None or workload.work is None:
                return stored
            values = {"of_tenant": tenant, "of_workload_id": workload.workload_id, "work": _work_text(workload)}
            connection.execute(_WITH_WORK, values)
            return stored.model_copy(update={"work": workload.work})

    def get(self, tenant: str, workload_id: str) -> Workload:
        """One workload with its module. Raises NotFound, BlobMissing, BlobDamaged."""
        with self._database.reading() as connection:
            row = connection.execute(_BY_ID, {"tenant": tenant, "workload_id": workload_id}).one_or_none()
        if row is None:
            raise NotFound("workload", workload_id)
        return self._with_module(row)

    def with_hash(self, tenant: str, structural_hash: str, tvm_version: str) -> list[Workload]:
        """Workloads that may be the same function. Compare their modules with ``structural_equal``."""
        with self._database.reading() as connection:
            rows = _with_hash(connection, tenant, [], structural_hash, tvm_version)
        return [self._with_module(row) for row in rows]

    def alike(
        self, tenant: str, workload: Workload, limit: int, *, with_other_arguments: bool = False
    ) -> list[Workload]:
        """Up to ``limit`` workloads of the sharing group that may be the same function, the tenant's own first.

        Reads no other modules. Those of other tenants that cannot be read are left out.
        """
        with self._database.reading() as connection:
            partners = partners_of(connection, tenant)
            rows = _with_hash(connection, tenant, partners, workload.structural_hash, workload.tvm_version)
            if not with_other_arguments:
                rows = [row for row in rows if _ARGUMENTS.validate_json(row.arguments) == workload.arguments]
        found: list[Workload] = []
        for row in rows[:limit]:
            try:
                found.append(self._with_module(row))
            except (BlobMissing, BlobDamaged):
                if row.tenant == tenant:
                    raise
        return found

    def page(
        self, tenant: str, after: str | None = None, limit: int = 100, name: str | None = None
    ) -> list[StoredWorkload]:
        """Workloads by id without their modules, at most ``limit``, after the id ``after``; optionally of one name."""
        query = _OF_TENANT.order_by(WorkloadTable.workload_id).limit(limit)
        if after is not None:
            query = query.where(WorkloadTable.workload_id > after)
        if name is not None:
            query = query.where(WorkloadTable.name == name)
        with self._database.reading() as connection:
            return [_without_module(row) for row in connection.execute(query, {"tenant": tenant})]

    def stored(self, tenant: str, workload_id: str) -> StoredWorkload:
        """One workload without its module. Raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_BY_ID, {"tenant": tenant, "workload_id": workload_id}).one_or_none()
            if row is None:
                raise NotFound("workload", workload_id)
            return _without_module(row)

    def of_other_tvm(self, tvm_version: str) -> list[tuple[str, str]]:
        """Tenants and ids of all workloads that were hashed by another version of TVM."""
        query = select(WorkloadTable.tenant, WorkloadTable.workload_id)
        query = query.where(WorkloadTable.tvm_version != tvm_version)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(WorkloadTable.tenant, WorkloadTable.workload_id)).all()
        return [(row.tenant, row.workload_id) for row in rows]

    @retried
    def rehash(self, tenant: str, workload_id: str, structural_hash: str, tvm_version: str) -> None:
        """Replace the hash of a workload by that of another version of TVM. Raises NotFound."""
        changed = (
            update(WorkloadTable)
            .where(WorkloadTable.tenant == tenant, WorkloadTable.workload_id == workload_id)
            .values(structural_hash=structural_hash, tvm_version=tvm_version)
        )
        with self._database.writing() as connection:
            if not connection.execute(changed).rowcount:
                raise NotFound("workload", workload_id)

    def _with_module(self, row: AnyRow) -> Workload:
        module_json = self._blobs.get(row.workload_id).decode()
        with self._database.row_errors():
            return _workload(row, module_json)


def _with_hash(
    connection: Connection, tenant: str, partners: Sequence[str], structural_hash: str, tvm_version: str
) -> list[AnyRow]:
    """One row for each workload of a tenant and its partners with a hash, the tenant's own first."""
    values = {"tenant": tenant, "structural_hash": structural_hash, "tvm_version": tvm_version}
    first: dict[str, AnyRow] = {}
    for row in connection.execute(_BY_HASH, values | {"tenants": [tenant, *partners]}):
        first.setdefault(row.workload_id, row)
    return list(first.values())


def require_workload(connection: Connection, tenant: str, workload_id: str) -> None:
    """Raise NotFound unless the tenant has stored the workload."""
    if connection.execute(_BY_ID, {"tenant": tenant, "workload_id": workload_id}).first() is None:
        raise NotFound("workload", workload_id)


def family_of(workload: Workload) -> str:
    """Digest of the name without numbers, and of each argument's rank, type and direction.

    TVM numbers the functions of a model: ``fused_conv2d3_add1`` is ``fused_conv2d7_add4`` of another shape or model.
    """
    arguments = [[len(argument.shape), argument.dtype, argument.is_output] for argument in workload.arguments]
    return digest(canonical_json([_NUMBER.sub("", workload.name), arguments]))


def _values(tenant: str, workload: Workload) -> dict[str, object]:
    return {
        "tenant": tenant,
        "workload_id": workload.workload_id,
        "structural_hash": workload.structural_hash,
        "tvm_version": workload.tvm_version,
        "name": workload.name,
        "family": family_of(workload),
        "arguments": _ARGUMENTS.dump_json(workload.arguments).decode(),
        "floating_point_operations": workload.floating_point_operations,
        "work": _work_text(workload),
        "created_at": utc_now(),
    }


def _workload(row: AnyRow, module_json: str) -> Workload:
    return Workload(
        workload_id=row.workload_id,
        structural_hash=row.structural_hash,
        tvm_version=row.tvm_version,
        module_json=module_json,
        name=row.name,
        arguments=_ARGUMENTS.validate_json(row.arguments),
        floating_point_operations=row.floating_point_operations,
        work=None if row.work is None else Work.model_validate_json(row.work),
    )


def _work_text(workload: Workload) -> str | None:
    return None if workload.work is None else workload.work.model_dump_json()


def _without_module(row: AnyRow) -> StoredWorkload:
    return StoredWorkload(
        workload_id=row.workload_id,
        structural_hash=row.structural_hash,
        tvm_version=row.tvm_version,
        name=row.name,
        arguments=_ARGUMENTS.validate_json(row.arguments),
        floating_point_operations=row.floating_point_operations,
        created_at=row.created_at,
    )
