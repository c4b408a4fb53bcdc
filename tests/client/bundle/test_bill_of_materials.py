"""The bill of materials of a bundle: valid CycloneDX that names what is in the bundle and what made it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tunefarm.bundle.bill_of_materials import BundleMaterials, bill_of_materials
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm_schemas.tuning.bundle import BundleFile

TOOLCHAIN = BundleToolchain(
    "aarch64", ("aarch64-linux-gnu-gcc",), ("ar",), "gcc (Debian)", "12.2.0", False, "GNU ld (GNU Binutils) 2.40"
)
MATERIALS = BundleMaterials(
    "model_net", "0.1.0", "0.27.0", "tvm-0.27.0+llvm-22.1", "onnx opset 17, pytorch 2.13.0", TOOLCHAIN
)
FILES = (BundleFile(path="weights.bin", size_bytes=4, digest="0a"),)


def versions(content: bytes) -> dict[str, str | None]:
    return {each["name"]: each.get("version") for each in json.loads(content)["components"]}


def require_valid(content: bytes) -> None:
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode())
    assert problem is None, str(problem)[:2000]


def test_bill_names_what_made_the_bundle() -> None:
    content = bill_of_materials(MATERIALS, FILES)
    require_valid(content)
    assert versions(content) == {
        "tunefarm": "0.1.0",
        "apache-tvm": "0.27.0",
        "llvm": "22.1",
        "pytorch": "2.13.0",
        "gcc (Debian)": "12.2.0",
        "GNU ld (GNU Binutils)": "2.40",
    }
    assert json.loads(content)["metadata"]["component"]["name"] == "model_net"


@pytest.mark.parametrize(
    ("framework", "found"),
    [
        ("torch 2.13.0", {"torch": "2.13.0"}),
        ("onnx opset 17", {"onnx opset": "17"}),
        ("test", {"test": None}),
        ("tvm 0.27.0", {}),
        ("onnx opset 17, ☃\t<b> 1", {"☃\t<b>": "1"}),
    ],
)
def test_framework_is_the_one_that_wrote_the_model(framework: str, found: dict[str, str | None]) -> None:
    content = bill_of_materials(replace(MATERIALS, framework=framework, toolchain=None), FILES)
    require_valid(content)
    assert versions(content).items() - {("tunefarm", "0.1.0"), ("apache-tvm", "0.27.0"), ("llvm", "22.1")} == (
        found.items()
    )


def test_serial_number_is_that_of_the_content() -> None:
    bill = bill_of_materials(MATERIALS, FILES)
    assert bill == bill_of_materials(MATERIALS, FILES)
    others = (
        bill_of_materials(replace(MATERIALS, tvm_version="0.27.1"), FILES),
        bill_of_materials(MATERIALS, (FILES[0].model_copy(update={"digest": "0b"}),)),
    )
    assert len({json.loads(each)["serialNumber"] for each in (bill, *others)}) == 3


def test_bundle_contains_its_bill(library: Path) -> None:
    manifest, folder = read_bundle(str(library))
    assert manifest.sbom == "sbom.cdx.json"
    content = (folder / manifest.sbom).read_bytes()
    require_valid(content)
    names = versions(content)
    assert names["apache-tvm"] == manifest.tvm_version
    assert names["torch"] == "2.13.0"
    assert f"+llvm-{names['llvm']}" in manifest.code_generator
    assert len(names) == 6, "the compiler and the linker too"
