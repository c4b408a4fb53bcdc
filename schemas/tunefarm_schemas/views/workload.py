"""Views of workloads."""

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.tuning.workload import TensorArgument


class WorkloadView(BaseModel):
    """A workload without its module, which ``GET /v1/workloads/{workload_id}/module`` returns."""

    model_config = ConfigDict(frozen=True)

    workload_id: str
    name: str
    structural_hash: str
    tvm_version: str
    arguments: tuple[TensorArgument, ...]
    floating_point_operations: float

    @classmethod
    def of(cls, workload: BaseModel) -> "WorkloadView":
        """The view of ``workload``, whose fields are a superset."""
        return cls.model_construct(**{name: getattr(workload, name) for name in cls.model_fields})


class WorkloadList(BaseModel):
    """The stored functions of a module."""

    workloads: tuple[WorkloadView, ...]
