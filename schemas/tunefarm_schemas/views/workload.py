"""Workloads as they are listed."""

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.tuning.workload import TensorArgument


class WorkloadView(BaseModel):
    """A workload without its module, which ``GET /v1/workloads/{workload_id}/module`` gives."""

    model_config = ConfigDict(frozen=True)

    workload_id: str
    name: str
    structural_hash: str
    tvm_version: str
    arguments: tuple[TensorArgument, ...]
    floating_point_operations: float

    @classmethod
    def of(cls, workload: BaseModel) -> "WorkloadView":
        """What is shown of ``workload``, which has these fields and others."""
        return cls.model_construct(**{name: getattr(workload, name) for name in cls.model_fields})


class WorkloadList(BaseModel):
    """The functions of a module, as they are stored."""

    workloads: tuple[WorkloadView, ...]
