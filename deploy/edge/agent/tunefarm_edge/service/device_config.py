"""The settings of a device, in its folder."""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.floor import Floor, write_floor, write_time
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import Name
from tunefarm_schemas.frozen import Frozen


class DeviceConfig(Frozen):
    """``config.json``: written by ``enrol`` and ``init``; the second half may be edited.

    Attributes:
        channel: that the device follows.
        base_url: of the service, such as ``https://farm.example.org/v1/edge``; None for a device without network.
        edge_device_id: that the service gave.
        device_class_id: of this kind of device, if its releases have a variant for it.
        keep_versions: how many releases stay on disk, the current and the previous one included.
        health_command: a program that fails if the device does not work with a new release.
        health_deadline_s: after which it has failed.
        max_reports: that are kept while the service cannot be reached.
    """

    channel: Name
    base_url: str | None = None
    edge_device_id: str | None = None
    device_class_id: str | None = Field(default=None, max_length=100)
    keep_versions: int = Field(default=2, ge=2)
    health_command: tuple[str, ...] = ()
    health_deadline_s: float = Field(default=10.0, gt=0)
    max_reports: int = Field(default=1_000, ge=10)


def read_config(root: EdgeRoot) -> DeviceConfig:
    """The settings of a device.

    Raises:
        BadInput: there are none, or they cannot be read.
    """
    try:
        return DeviceConfig.model_validate_json(root.config.read_bytes())
    except FileNotFoundError:
        problem = f"{root.path} does not belong to a device."
        raise BadInput("--root", problem, "Run tunefarm-agent enrol or tunefarm-agent init.") from None
    except ValidationError as error:
        at = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise BadInput(f"{root.config}: {at}", error.errors()[0]["msg"], "Correct the file.") from None


def read_pinned_root(path: Path) -> bytes:
    """The root metadata that all trust starts from. Raises BadInput if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror})."
        raise BadInput("--pinned-root", problem, "Give the root metadata of the repository.") from None


def write_config(root: EdgeRoot, config: DeviceConfig, pinned_root: bytes, token: str | None) -> None:
    """Make a folder the folder of a device."""
    root.make_folders()
    disk = root.disk
    disk.replace_file(root.pinned_root, pinned_root)
    if token is not None:
        disk.replace_file(root.token, token.encode(), 0o600)
    if not root.floor.exists():
        write_floor(root, Floor(latest_time=write_time(datetime.now(UTC))))
    disk.replace_file(root.config, f"{config.model_dump_json(indent=2)}\n".encode())


def read_token(root: EdgeRoot) -> str | None:
    """The secret of the device, if it has one."""
    return root.token.read_text().strip() if root.token.exists() else None
