"""Builds the bundles that tenants ask for, one after the other, in children of a fork server."""

import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from tunefarm.confined.call import call
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.jobs.job_records import records_of_job
from tunefarm_services.known_workloads import recognised
from tunefarm_services.same_workload import SAME_ENTRY, SameAnswer, SameQuestion
from tunefarm_services.store import Store, StoreError, StoreUnavailable
from tunefarm_services.store.records.bundle_repository import BundleLease
from tunefarm_services.tuner.service.fork_servers import ForkServers

if TYPE_CHECKING:
    from tunefarm.bundle.bundle_build import BuiltBundle
    from tunefarm.bundle.bundle_source import BundleSource, ModelSource

LEASE_S: Final = 60.0
POLL_S: Final = 1.0
AFTER_FORK_FAILED_S: Final = 10.0
"""Before the next bundle is leased, which may be the same."""
MAX_BYTES: Final = 256 << 20
"""Of one archive."""
_INTERNAL: Final = "It could not be built, for a reason that the log of the tuner states."
_NVCC_FIX: Final = (
    "Its operator can install one with pip install 'tunefarm[cuda]', or name one in PATH or CUDA_HOME. Or run tunefarm "
    "bundle build SOURCE --form cuda on a machine of yours."
)

log = structlog.get_logger()


@dataclass(frozen=True)
class BundleBuilds:
    """Leases bundles and builds them. Any number of processes may do so.

    Attributes:
        store: with the bundles.
        fork_servers: for all kinds of children; one is started with the first bundle.
        owner: the name of this process in leases.
        scratch: a folder for temporary files.
        caches: a private folder that keeps what Zig builds for all bundles of a machine.
    """

    store: Store
    fork_servers: ForkServers
    owner: str
    scratch: Path
    caches: Path

    def run(self, stop: threading.Event) -> None:
        """Build until ``stop`` is set."""
        while not stop.wait(POLL_S):
            try:
                while not stop.is_set() and (lease := self.store.bundles.lease_next(self.owner, LEASE_S)) is not None:
                    self._build(lease, stop)
            except StoreError as error:
                log.warning("bundles wait for the store", reason=str(error))
            except Exception:  # the next bundle may be built
                log.exception("building bundles failed")

    def _build(self, lease: BundleLease, stop: threading.Event) -> None:
        """Build one bundle, and store what came of it. When this process ends, another one begins it again."""
        folder = Path(tempfile.mkdtemp(prefix="bundle-", dir=self.scratch))
        folder.chmod(0o711)
        try:
            with self._renewed(lease):  # storing the archive may take longer than a lease
                built, content = self._built(lease, folder)
                self.store.bundles.finish(lease, built.manifest, content, "\n".join(built.notes))
            log.info("bundle built", bundle_id=lease.bundle_id, size_bytes=len(content))
        except ForkFailed as error:
            log.warning("a bundle waits", bundle_id=lease.bundle_id, reason=str(error))
            self.store.bundles.release(lease)
            stop.wait(AFTER_FORK_FAILED_S)
        except StoreUnavailable:  # the bundle waits for the store
            raise
        except (BadInput, StoreError) as error:
            log.info("bundle not built", bundle_id=lease.bundle_id, reason=str(error))
            self._end(lease, str(error), stop)
        except Exception:
            log.exception("a bundle could not be built", bundle_id=lease.bundle_id)
            self._end(lease, _INTERNAL, stop)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _end(self, lease: BundleLease, message: str, stop: threading.Event) -> None:
        if stop.is_set():  # its children were ended, which is not its fault
            with suppress(StoreError):
                self.store.bundles.release(lease)
            return
        self.store.bundles.fail(lease, message)

    def _built(self, lease: BundleLease, folder: Path) -> "tuple[BuiltBundle, bytes]":
        from tunefarm.bundle.bundle_archive import archive_of
        from tunefarm.bundle.bundle_build import BundleBuilder
        from tunefarm.bundle.confined.confined_link import ConfinedLink
        from tunefarm.bundle.confined.confined_nvcc import ConfinedNvcc
        from tunefarm.bundle.confined.zig_caches import ZigCaches

        order = lease.order
        if order.form == "cuda":
            _require_nvcc()
        fork_server = self.fork_servers.present()
        source = self._source(lease, fork_server)
        link, compile_cuda = ConfinedLink(fork_server, ZigCaches(self.caches)), ConfinedNvcc(fork_server)
        builder = BundleBuilder(fork_server, link=link, compile_cuda=compile_cuda)
        built = builder.build_source(source, order.name, order.form, folder / "bundle")
        size_bytes = sum(each.size_bytes for each in built.manifest.files)
        if size_bytes > MAX_BYTES:
            problem = f"the bundle has {size_bytes} bytes, and at most {MAX_BYTES} are kept."
            raise BadInput("record_ids", problem, "Ask for fewer functions.")
        return built, archive_of(folder / "bundle")

    def _source(self, lease: BundleLease, fork_server: ForkServer) -> "BundleSource":
        from tunefarm.bundle.record_functions import functions_of_records

        tenant, order, store = lease.tenant, lease.order, self.store
        if order.upload_id is not None:
            return self._model(tenant, store.uploads.content(tenant, order.upload_id), order.target, fork_server)
        if order.is_model and order.job_id is not None:
            return self._model(tenant, store.job_models.content(tenant, order.job_id), order.target, fork_server)
        if order.job_id is None:
            records = [store.records.get(tenant, each) for each in order.record_ids]
        else:
            records = records_of_job(store, tenant, order.job_id)
        return functions_of_records(store, tenant, records, order.target, order.form)

    def _model(self, tenant: str, model: bytes, target: Target | None, fork_server: ForkServer) -> "ModelSource":
        from tunefarm.bundle.bundle_source import ModelSource
        from tunefarm.bundle.record_search import RecordSearch
        from tunefarm.frontend.model_import import ImportedModel

        def compare(question: SameQuestion) -> SameAnswer:
            return call(fork_server, SAME_ENTRY, question, SameAnswer, field="upload_id")

        def stored(workloads: Sequence[Workload]) -> Sequence[Workload]:
            return recognised(self.store.workloads, tenant, workloads, compare, with_schedules=True, of_model=True)

        imported = ImportedModel(model.decode(errors="replace"), {}, "tvm", ())
        wanted = "" if target is None else target.canonical
        search = RecordSearch(self.store.best_records, self.store.targets, tenant, stored)
        return ModelSource(imported, wanted, search, is_foreign=True)

    @contextmanager
    def _renewed(self, lease: BundleLease) -> Iterator[None]:
        """Renew the lease inside the block."""
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(LEASE_S / 4):
                with suppress(StoreError):
                    self.store.bundles.renew(lease, LEASE_S)

        thread = threading.Thread(target=renew, name="bundle-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _require_nvcc() -> None:
    """Raise BadInput for a caller who cannot choose the compiler, before anything is planned. The log has details."""
    from tunefarm.bundle.cuda.nvcc import Nvcc

    try:
        Nvcc.found()
    except BadInput as error:
        log.warning("no bundles for GPUs are built here", reason=str(error))
        raise BadInput("form", "the service's host has no CUDA compiler.", _NVCC_FIX) from error
