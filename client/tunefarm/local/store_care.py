"""Migrates the store and rehashes workloads."""

import contextlib

from tunefarm.confined import rehash, tvm_facts
from tunefarm.confined.call import call
from tunefarm.startup.installation import open_store
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.settings import Settings
from tunefarm_services.store import BlobDamaged, BlobMissing, NotFound
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository


class RehashReport(Frozen):
    """The number of rehashed workloads, the TVM version, and one sentence per workload that cannot be read."""

    tvm_version: str
    rehashed: int
    refused: tuple[str, ...]


def upgrade_store(settings: Settings, *, create: bool) -> str:
    """Migrate the database to the schema of this version; returns its revision. ``create`` creates a missing one."""
    with contextlib.closing(open_store(settings, create=create, upgrade=True)) as store:
        return str(store.revision())


def rehash_workloads(workloads: WorkloadRepository, fork_server: ForkServer) -> RehashReport:
    """Recompute, for all tenants, the structural hashes that another version of TVM computed.

    Workloads keep their ids: a function is found by its new hash although this TVM serialises it differently.
    """
    facts = call(fork_server, tvm_facts.ENTRY, tvm_facts.NoQuestion(), tvm_facts.TvmFacts, field="TVM")
    rehashed, refused = 0, []
    for tenant, workload_id in workloads.of_other_tvm(facts.tvm_version):
        try:
            _rehash(workloads, fork_server, tenant, workload_id)
        except (BadInput, NotFound, BlobMissing, BlobDamaged) as reason:
            refused.append(f"{workload_id} of {tenant}: {reason}")
        else:
            rehashed += 1
    return RehashReport(tvm_version=facts.tvm_version, rehashed=rehashed, refused=tuple(refused))


def _rehash(workloads: WorkloadRepository, fork_server: ForkServer, tenant: str, workload_id: str) -> None:
    module = rehash.StoredModule(module_json=workloads.get(tenant, workload_id).module_json)
    found = call(fork_server, rehash.ENTRY, module, rehash.StructuralHash, field="workload")
    workloads.rehash(tenant, workload_id, found.structural_hash, found.tvm_version)
