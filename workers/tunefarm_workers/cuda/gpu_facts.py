"""Facts about a GPU of this host from its driver, without creating a context."""

import csv
import subprocess
from importlib import import_module
from typing import Any

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

_FIELDS = "name,uuid,compute_cap,memory.total,driver_version,clocks.sm,temperature.gpu"
_ANSWER_S = 20.0
_MEBIBYTE = 1 << 20


class GpuFacts(Frozen):
    """Facts about a GPU. ``architecture`` is the compilers' name, such as ``sm_90``; clock and temperature vary."""

    name: str
    uuid: str
    architecture: str
    memory_bytes: int
    driver: str
    clock_mhz: int
    temperature_c: int


def gpu_facts(index: int) -> GpuFacts:
    """Query the driver, through its library if nvidia-ml-py is installed, otherwise through ``nvidia-smi``.

    Raises:
        BadInput: there is no driver, or no such device.
    """
    try:
        library = import_module("pynvml")
    except ImportError:
        return _of_command(index)
    return _of_library(library, index)


def _of_library(nvml: Any, index: int) -> GpuFacts:
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        return GpuFacts(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            architecture=f"sm_{major}{minor}",
            memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            clock_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            temperature_c=int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        )
    except nvml.NVMLError as error:
        raise _no_device(index, str(error)) from error


def _of_command(index: int) -> GpuFacts:
    command = ["nvidia-smi", f"--id={index}", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_ANSWER_S).stdout
    except FileNotFoundError as error:
        raise _no_device(index, "there is no nvidia-smi") from error
    except (subprocess.SubprocessError, OSError) as error:
        raise _no_device(index, str(error)) from error
    return facts_of(answer, index)


def facts_of(answer: str, index: int) -> GpuFacts:
    """Parse one line of ``nvidia-smi``. Raises ``BadInput`` if it is invalid."""
    try:
        row = next(csv.reader(answer.splitlines(), skipinitialspace=True))
        name, uuid, capability, memory_mib, driver, clock_mhz, temperature_c = (field.strip() for field in row)
        return GpuFacts(
            name=name,
            uuid=uuid,
            architecture=f"sm_{capability.replace('.', '')}",
            memory_bytes=int(memory_mib) * _MEBIBYTE,
            driver=driver,
            clock_mhz=_number(clock_mhz),
            temperature_c=_number(temperature_c),
        )
    except (StopIteration, ValueError) as error:
        raise _no_device(index, f"nvidia-smi said {answer.strip()!r}") from error


def _number(text: str) -> int:
    """Parse a number; 0 if the driver reports none."""
    return int(text) if text.isdecimal() else 0


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _no_device(index: int, why: str) -> BadInput:
    return BadInput(
        "device", f"there is no usable CUDA device {index}: {why}.", "Install NVIDIA's driver, or see doctor."
    )
