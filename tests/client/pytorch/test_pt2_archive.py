"""Archives that are refused before torch reads them."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tunefarm.frontend.pytorch.pt2_archive import require_safe_archive
from tunefarm_schemas.bad_input import BadInput

Write = Callable[..., Path]


def config(**entry: object) -> str:
    return json.dumps({"config": {"layer.weight": {"path_name": "weight_0", "use_pickle": False, **entry}}})


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writing(members: dict[str, str | bytes], compression: int = zipfile.ZIP_STORED) -> Path:
        path = tmp_path / "model.pt2"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return writing


def test_archive_of_plain_weights_is_accepted(write: Write) -> None:
    require_safe_archive(write({"m/data/weights/model_weights_config.json": config(), "m/models/model.json": "{}"}))


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"m/data/weights/model_weights_config.json": config(use_pickle=True)}, "as a pickle"),
        ({"m/data/constants/model_constants_config.json": config(path_name="custom_obj_0")}, "as a pickle"),
        ({"m/data/constants/model_constants_config.json": config(path_name="opaque_obj_0")}, "as a pickle"),
        ({"m/data/weights/model_weights_config.json": "{}"}, "no table"),
        ({"m/data/weights/model_weights_config.json": '{"config": {"w": 3}}'}, "not a .pt2 archive"),
        ({"m/data/aotinductor/model/model.cpp": ""}, "compiled code"),
        ({"m/extra/kernel.so": ""}, "compiled code"),
        ({"../../etc/cron.d/job": ""}, "outside of it"),
        ({"/etc/passwd": ""}, "outside of it"),
        ({"m\\..\\..\\file": ""}, "outside of it"),
    ],
)
def test_archive_with_unsafe_members_is_rejected(write: Write, members: dict[str, str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        require_safe_archive(write(members))


def test_zip_bomb_is_rejected_by_its_table_alone(write: Write) -> None:
    path = write({"m/data/weights/weight_0": bytes(64 << 20)}, zipfile.ZIP_DEFLATED)

    with pytest.raises(BadInput, match="zip bomb"):
        require_safe_archive(path)


def test_overlapping_members_are_rejected(write: Write) -> None:
    path = write({"first": bytes(1000), "second": bytes(1000)})
    content = path.read_bytes()
    table = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 1)
    with path.open("r+b") as file:  # the second entry of the table now points to the first member, with a larger size
        file.seek(table + 20)
        file.write((5000).to_bytes(4, "little") * 2)

    with pytest.raises(BadInput, match="zip bomb"):
        require_safe_archive(path)


@pytest.mark.parametrize("kept", [0, 10, 200])
def test_truncated_archive_is_rejected(write: Write, kept: int) -> None:
    path = write({"m/models/model.json": "{}" * 200})
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(BadInput, match="truncated"):
        require_safe_archive(path)


def test_repeated_member_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/models/model.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("m/models/model.json", "[]")

    with pytest.raises(BadInput, match="same name"):
        require_safe_archive(path)
