"""The bill of materials of a bundle, in CycloneDX: what is in it, and what made it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tunefarm.bundle.cuda.nvcc import Nvcc
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm_schemas.tuning.bundle import BundleFile

SBOM: Final = "sbom.cdx.json"
_APACHE: Final = "Apache-2.0"
_LLVM_LICENSE: Final = "Apache-2.0 WITH LLVM-exception"
_ON_PYPI: Final = frozenset({"torch", "jax", "tensorflow"})
"""Frameworks that go by the name of their package."""


@dataclass(frozen=True)
class BundleMaterials:
    """What a bundle is made of and by.

    Attributes:
        name: of the model.
        tunefarm_version, tvm_version: of this build.
        code_generator: such as ``tvm-0.27.0+llvm-22.1``.
        framework: name and version of what wrote the model.
        toolchain: that linked it, or compiled its kernels for a GPU; None for sources and object files.
    """

    name: str
    tunefarm_version: str
    tvm_version: str
    code_generator: str
    framework: str
    toolchain: BundleToolchain | Nvcc | None


def bill_of_materials(materials: BundleMaterials, files: Sequence[BundleFile]) -> bytes:
    """CycloneDX 1.6 as JSON. It has no timestamp, and its serial number is computed from it and from ``files``.

    Equal materials and files therefore have equal bills.
    """
    components = list(_components(materials))
    unnumbered = _text(materials.name, components, UUID(int=0))
    content = "\n".join([unnumbered, *(f"{each.digest} {each.path}" for each in files)])
    serial = UUID(bytes=sha256(content.encode()).digest()[:16], version=5)
    return f"{_text(materials.name, components, serial)}\n".encode()


def _text(name: str, components: Iterable[Component], serial: UUID) -> str:
    model = Component(name=name, bom_ref=name, type=ComponentType.MACHINE_LEARNING_MODEL)
    bom = Bom(serial_number=serial, metadata=BomMetaData(component=model), components=components)
    bom.metadata.timestamp = None  # type: ignore[assignment] # is optional in CycloneDX
    bom.register_dependency(model, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _components(materials: BundleMaterials) -> Iterator[Component]:
    """What is only used to build a bundle has the scope ``excluded``.

    A compiler has not: it links parts of its own run-time library.
    """
    apache = DisjunctiveLicense(id=_APACHE)
    yield Component(
        name="tunefarm",
        version=materials.tunefarm_version,
        bom_ref="tunefarm",
        description="The runtime in C, and what wrote the bundle.",
        licenses=[apache],
        purl=PackageURL("pypi", None, "tunefarm", materials.tunefarm_version),
    )
    yield Component(
        name="apache-tvm",
        version=materials.tvm_version,
        bom_ref="apache-tvm",
        description="Generated the kernels.",
        licenses=[apache],
        purl=PackageURL("pypi", None, "apache-tvm", materials.tvm_version),
        scope=ComponentScope.EXCLUDED,
    )
    llvm = materials.code_generator.partition("+llvm-")[2]
    if llvm:
        yield _llvm(llvm)
    yield from _framework(materials.framework)
    if materials.toolchain is not None:
        yield from _tools(materials.toolchain)


def _llvm(version: str) -> Component:
    return Component(
        name="llvm",
        version=version,
        bom_ref="llvm",
        description="Compiled the kernels, as a part of TVM.",
        licenses=[LicenseExpression(_LLVM_LICENSE)],
        scope=ComponentScope.EXCLUDED,
    )


def _framework(framework: str) -> Iterator[Component]:
    """``framework`` is such as ``torch 2.13.0``, or ``onnx opset 17, pytorch 2.13.0`` with what wrote the file last."""
    name, _, version = framework.rpartition(", ")[2].rpartition(" ")
    name, version = (name, version) if name else (version, "")
    if name in {"", "tvm"}:  # TVM is a component already
        return
    yield Component(
        name=name,
        version=version or None,
        bom_ref="framework",
        type=ComponentType.FRAMEWORK,
        description="Wrote the model.",
        purl=PackageURL("pypi", None, name, version) if name in _ON_PYPI and version else None,
        scope=ComponentScope.EXCLUDED,
    )


def _tools(toolchain: BundleToolchain | Nvcc) -> Iterator[Component]:
    yield Component(
        name=toolchain.name,
        version=toolchain.version or None,
        bom_ref="compiler",
        type=ComponentType.APPLICATION,
        description="Compiled the kernels." if isinstance(toolchain, Nvcc) else "Compiled the plan and the runtime.",
    )
    if toolchain.linker:
        name, _, version = toolchain.linker.rpartition(" ")
        yield Component(
            name=name or toolchain.linker,
            version=version if name else None,
            bom_ref="linker",
            type=ComponentType.APPLICATION,
            description="Linked the bundle.",
            scope=ComponentScope.EXCLUDED,
        )
