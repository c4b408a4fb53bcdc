"""Bundles as modules for WebAssembly compute the test vectors in engines: Wasmtime, and that of a browser."""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import tvm

from tests.browser.conftest import PROGRAMS, SWITCHES
from tests.client.bundle.test_function_bundles import NEGATED, TWICE, product_of_half, scale_expected, scheduled
from tests.search.relax.models import convolutional_network
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.bundle_source import FunctionsSource, RecordFunction
from tunefarm.bundle.confined.confined_link import ConfinedLink
from tunefarm.bundle.confined.zig_caches import ZigCaches
from tunefarm.bundle.link.linking import CompiledForm
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.function_orders import ChosenRecord
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import WASM_TARGET

pytestmark = pytest.mark.targets

FUNCTIONS = (scheduled(TWICE, "1" * 32), scheduled(NEGATED, "2" * 32))
PAGE = """<!doctype html><script type="module">
import { selfTest } from "./tunefarm.mjs";
selfTest().then((found) => (document.title = JSON.stringify(found)), (error) => (document.title = String(error)));
</script>"""


@pytest.fixture(scope="module")
def network(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    small = convolutional_network()
    model = ImportedModel(str(tvm.ir.save_json(small.module)), small.weights, "test", ())
    folder = tmp_path_factory.mktemp("wasm") / "network"
    return BundleBuilder(fork_server).build(model, WASM_TARGET, "net", "wasm", folder).folder


@pytest.fixture(scope="module")
def service_link(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> ConfinedLink:
    """What links the bundles of a service."""
    return ConfinedLink(fork_server, ZigCaches(tmp_path_factory.mktemp("zig-caches")))


@pytest.fixture(scope="module")
def functions(fork_server: ForkServer, service_link: ConfinedLink, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two functions with schedules of records, linked as a service links them."""
    source = FunctionsSource(FUNCTIONS, WASM_TARGET, needs_schedules=True)
    folder = tmp_path_factory.mktemp("wasm") / "functions"
    return BundleBuilder(fork_server, link=service_link).build_source(source, "Both", "wasm", folder).folder


@pytest.mark.parametrize(("bundle", "vectors"), [("network", 1), ("functions", 2)])
def test_module_tests_itself_in_wasmtime(bundle: str, vectors: int, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(bundle)
    engine = Path(__file__).with_name("run_wasm.py")
    command = (sys.executable, str(engine), str(folder / "self_test.wasm"), str(folder))
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{vectors} vectors, worst error" in ended.stdout


@pytest.mark.parametrize("bundle", ["network", "functions"])
def test_program_runs_the_module_without_imports(bundle: str, request: pytest.FixtureRequest) -> None:
    from tests.targets.wasm_host import worst_error  # make test runs without Wasmtime

    manifest, folder = read_bundle(str(request.getfixturevalue(bundle)))
    assert worst_error(folder, manifest) <= 1.0


def test_manifest_says_what_an_engine_needs(network: Path, functions: Path) -> None:
    for folder in (network, functions):
        manifest = read_bundle(str(folder))[0]
        assert manifest.requires is not None
        assert (manifest.form, manifest.requires.architecture) == ("wasm", "wasm32")
        assert "simd128" in manifest.requires.cpu_features
    assert [(each.kind, each.record_id) for each in read_bundle(str(functions))[0].functions] == [
        ("record", "1" * 32),
        ("record", "2" * 32),
    ]


def test_module_refuses_an_unknown_entry(functions: Path) -> None:
    from tests.targets.wasm_host import WasmModel  # make test runs without Wasmtime

    model = WasmModel(functions)
    assert (model.call("tunefarm_entries"), model.call("tunefarm_output_bytes", 1, 0)) == (2, 32 * 8 * 4)
    assert model.call("tunefarm_run", 2, 0, 0, 0, 0) != 0
    assert model.error() == "IndexError: there is no such entry"
    assert model.call("tunefarm_run", 0, 0, 0, model.placed(bytes(4)), model.placed(bytes(4))) != 0
    assert "does not begin at a multiple of 64 bytes" in model.error()


def test_equal_builds_have_equal_modules(fork_server: ForkServer, functions: Path, tmp_path: Path) -> None:
    source = FunctionsSource(FUNCTIONS, WASM_TARGET, needs_schedules=True)
    again = BundleBuilder(fork_server).build_source(source, "Both", "wasm", tmp_path / "elsewhere").folder
    for name in ("model.wasm", "self_test.wasm", "manifest.json"):
        assert (functions / name).read_bytes() == (again / name).read_bytes(), name


def test_next_bundle_of_a_service_builds_no_c_library(
    fork_server: ForkServer, service_link: ConfinedLink, functions: Path, tmp_path: Path
) -> None:
    built: list[set[str]] = []

    def link(
        toolchain: BundleToolchain, form: CompiledForm, files: Mapping[str, bytes], folder: Path
    ) -> Mapping[str, bytes]:
        made = service_link(toolchain, form, files, folder)
        assert not (folder / "cache").exists(), "the archive was built again"
        cache = folder / "confined/cache"
        built.append({str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()})
        return made

    source = FunctionsSource(FUNCTIONS, WASM_TARGET, needs_schedules=True)
    again = BundleBuilder(fork_server, link=link).build_source(source, "Both", "wasm", tmp_path / "again").folder
    (archive,) = service_link.caches.folder.glob("*.zip")
    with zipfile.ZipFile(archive) as kept:
        assert built == [set(kept.namelist())]
        assert [name for name in kept.namelist() if name.endswith("/libc.a")]
    assert (functions / "self_test.wasm").read_bytes() == (again / "self_test.wasm").read_bytes()


def test_schedule_that_does_not_apply_is_refused(fork_server: ForkServer, tmp_path: Path) -> None:
    from tests.targets.wasm_host import worst_error  # make test runs without Wasmtime

    broken = RecordFunction(NEGATED, ChosenRecord("3" * 32, '[[["GetSBlock",[],["missing","main"],["b0"]]],[]]'))
    source = FunctionsSource((broken,), WASM_TARGET, needs_schedules=True)
    with pytest.raises(BadInput, match="the schedule of negated does not apply") as refused:
        BundleBuilder(fork_server).build_source(source, "one", "wasm", tmp_path / "bundle")
    assert "name a target" in refused.value.fix
    built = BundleBuilder(fork_server).build_source(
        FunctionsSource((broken,), WASM_TARGET), "one", "wasm", tmp_path / "bundle"
    )
    assert list(built.problems) == ["negated"]
    assert worst_error(built.folder, built.manifest) <= 1.0


@pytest.mark.parametrize(("bundle", "vectors"), [("network", 1), ("functions", 2)])
def test_browser_runs_the_module(bundle: str, vectors: int, request: pytest.FixtureRequest) -> None:
    found = found_by_browser(request.getfixturevalue(bundle))
    assert found["vectors"] == vectors
    assert found["worstError"] <= 1.0


def found_by_browser(folder: Path) -> dict[str, float]:
    """What the self-test of a page returns."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert path is not None, "install Chromium: make test-targets does, as root on Debian"
    with _served(folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(SWITCHES))
        page = browser.new_page()
        page.route(f"{address}/", lambda route: route.fulfill(content_type="text/html", body=PAGE))
        page.goto(f"{address}/")
        page.wait_for_function("document.title !== ''")
        found: dict[str, float] = json.loads(page.title())
        browser.close()
    return found


def test_browser_compares_floats_of_16_bits_by_their_values(fork_server: ForkServer, tmp_path: Path) -> None:
    source = FunctionsSource((product_of_half("half"),), WASM_TARGET, needs_schedules=True)
    folder = BundleBuilder(fork_server).build_source(source, "half", "wasm", tmp_path / "bundle").folder
    assert 0 < found_by_browser(folder)["worstError"] <= 1.0
    scale_expected(folder, 1.1)
    assert 1.0 < found_by_browser(folder)["worstError"] < 100


class _served:  # noqa: N801 - reads as a verb
    """Serves a folder on a port of this host."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(_Quiet, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass
