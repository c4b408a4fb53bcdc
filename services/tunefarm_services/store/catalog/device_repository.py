"""Devices and their classes."""

from typing import Final

from sqlalchemy import bindparam, select, update

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.roofline import DevicePeaks
from tunefarm_schemas.tuning.device import Device, DeviceClass, ReferenceKernelTimes
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import DeviceClassTable, DeviceTable

_BY_FINGERPRINT: Final = (
    select(DeviceTable, DeviceClassTable.document)
    .join(
        DeviceClassTable,
        (DeviceClassTable.tenant == DeviceTable.tenant)
        & (DeviceClassTable.device_class_id == DeviceTable.device_class_id),
    )
    .where(DeviceTable.tenant == bindparam("tenant"), DeviceTable.fingerprint == bindparam("fingerprint"))
)
_WITH_PEAKS: Final = (
    update(DeviceTable)
    .where(DeviceTable.tenant == bindparam("of_tenant"), DeviceTable.fingerprint == bindparam("of_fingerprint"))
    .values(peaks=bindparam("peaks"))
)
_CLASS: Final = select(DeviceClassTable.document).where(
    DeviceClassTable.tenant == bindparam("tenant"), DeviceClassTable.device_class_id == bindparam("device_class_id")
)


class DeviceRepository(Repository):
    """Devices that measure, and their classes."""

    @retried
    def put(self, tenant: str, device: Device) -> Device:
        """Store a device and its class unless the fingerprint exists; return the stored device.

        The first one stays, so that two processes that measure a new device at the same time use the same class. Peaks
        that were unknown are added.
        """
        key = {"tenant": tenant, "fingerprint": device.fingerprint}
        with self._database.writing() as connection:
            row = connection.execute(_BY_FINGERPRINT, key).one_or_none()
            if row is None:
                connection.execute(
                    insert_once(connection, DeviceClassTable), _class_values(tenant, device.device_class)
                )
                connection.execute(insert_once(connection, DeviceTable), key | _values(device))
                row = connection.execute(_BY_FINGERPRINT, key).one()
            stored = _device_of(row)
            if stored.peaks is not None or device.peaks is None:
                return stored
            values = {"of_tenant": tenant, "of_fingerprint": device.fingerprint, "peaks": _peaks_text(device)}
            connection.execute(_WITH_PEAKS, values)
            return stored.model_copy(update={"peaks": device.peaks})

    def get(self, tenant: str, fingerprint: str) -> Device | None:
        """The device as first stored, or None."""
        with self._database.reading() as connection:
            row = connection.execute(_BY_FINGERPRINT, {"tenant": tenant, "fingerprint": fingerprint}).one_or_none()
            return None if row is None else _device_of(row)

    def get_class(self, tenant: str, device_class_id: str) -> DeviceClass:
        """One device class. Raises NotFound."""
        values = {"tenant": tenant, "device_class_id": device_class_id}
        with self._database.reading() as connection:
            document = connection.execute(_CLASS, values).scalar()
            if document is None:
                raise NotFound("device class", device_class_id)
            return DeviceClass.model_validate_json(document)


def _device_of(row: AnyRow) -> Device:
    return Device(
        fingerprint=row.fingerprint,
        host_name=row.host_name,
        device_class=DeviceClass.model_validate_json(row.document),
        reference=ReferenceKernelTimes(compute_s=row.compute_s, bandwidth_s=row.bandwidth_s, launch_s=row.launch_s),
        peaks=None if row.peaks is None else DevicePeaks.model_validate_json(row.peaks),
    )


def _peaks_text(device: Device) -> str | None:
    return None if device.peaks is None else device.peaks.model_dump_json()


def _class_values(tenant: str, device_class: DeviceClass) -> dict[str, object]:
    return {
        "tenant": tenant,
        "device_class_id": device_class.device_class_id,
        "kind": device_class.kind,
        "name": device_class.name,
        "document": device_class.model_dump_json(),
        "created_at": utc_now(),
    }


def _values(device: Device) -> dict[str, object]:
    return {
        "host_name": device.host_name,
        "device_class_id": device.device_class.device_class_id,
        "compute_s": device.reference.compute_s,
        "bandwidth_s": device.reference.bandwidth_s,
        "launch_s": device.reference.launch_s,
        "peaks": _peaks_text(device),
        "seen_at": utc_now(),
    }
