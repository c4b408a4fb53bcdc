"""Measures the peaks of this host's processor once for each device."""

from typing import Final

from pydantic import ValidationError

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.roofline import DevicePeaks
from tunefarm_schemas.tuning.device import Device

_ANSWER_S: Final = 30.0


def with_peaks(device: Device, fork_server: ForkServer, limits: Limits, cores: int) -> Device:
    """The device with its peaks, measured now unless they are known. Without them if they cannot be measured.

    The device must be this process's alone.
    """
    if device.peaks is not None:
        return device
    try:
        child = fork_server.fork(
            "tunefarm_workers.peaks.peak_kernels:measure",
            str(cores).encode(),
            limits=limits,
            confinement=Confinement.strict(may_pin_threads=True),
        )
    except ForkFailed:
        return device
    try:
        peaks = DevicePeaks.model_validate_json(child.channel.receive(timeout_s=_ANSWER_S))
    except (ChannelClosed, TimeoutError, ValidationError):
        return device
    finally:
        child.close()
    return device.model_copy(update={"peaks": peaks})
