"""The children that compile functions of a model to object files, and that link them."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import tvm

from tunefarm.model.messages import FunctionBuilt, FunctionOrder, ObjectsOrder
from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.refusal import Refusal
from tunefarm_schemas.tuning.model import FunctionKind
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import features_of_tiles
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.untried.gpu_schedule import gpu_schedule
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_workers.builder.c_source import c_source
from tunefarm_workers.builder.cuda_source import cuda_source
from tunefarm_workers.builder.linker import LinkFailed, link_kernel, linker_command
from tunefarm_workers.builder.scheduled_module import build_scheduled, replay
from tunefarm_workers.session.device.default_schedule import bound_to_threads

_POINTERS: Final = "".join(
    f"void *__TVMBackend{name};\n" for name in ("ParallelLaunch", "ParallelBarrier", "AllocWorkspace", "FreeWorkspace")
)
"""The variables that TVM's loader fills in. Each object has those that it uses, as weak ones; the linker would keep the
writable section of an object for one of them, and with it memory that has no name."""
_OBJECT = "function.o"
_GPU: Final = "cuda"


class _Chosen(NamedTuple):
    module: Any
    kind: FunctionKind
    way: str


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer each ``FunctionOrder`` with ``FunctionBuilt`` and an object file, until the channel ends."""
    while True:
        try:
            order = FunctionOrder.model_validate_json(channel.receive())
        except ChannelClosed:
            return
        try:
            built, contents = _built(order)
        except BadInput as error:
            channel.send(Refusal.of(error).model_dump_json().encode())
            continue
        except TVM_ERRORS as error:
            refused = BadInput("model", f"TVM cannot compile it: {last_line(error)}", "Simplify the operator.")
            channel.send(Refusal.of(refused).model_dump_json().encode())
            continue
        channel.send(built.model_dump_json().encode())
        channel.send(contents)


def link(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``ObjectsOrder``."""
    order = ObjectsOrder.model_validate_json(payload)
    folder = Path(order.folder)
    pointers = folder / "pointers.c"
    pointers.write_text(_POINTERS)
    try:
        link_kernel(linker_command(), folder / "kernels.so", [str(pointers), *order.objects], ["-lm"], folder)
    except (LinkFailed, FileNotFoundError) as error:
        refused = BadInput("model", f"its kernels cannot be linked: {error}.", "Check the C compiler of this host.")
        channel.send(Refusal.of(refused).model_dump_json().encode())
        return
    channel.send(FunctionBuilt(kind="unscheduled").model_dump_json().encode())
    channel.send((folder / "kernels.so").read_bytes())


def _built(order: FunctionOrder) -> tuple[FunctionBuilt, bytes]:
    """Compile the best of the schedules that TVM compiles: the record's, an untried one, none."""
    module, problem = load_json(order.module_json), ""
    for choose in (_of_record, _untried):
        try:
            chosen = choose(order, module)
            if chosen is not None:
                contents = _compiled(order, chosen.module)
                features = features_of_tiles(chosen.module[ENTRY])
                built = FunctionBuilt(kind=chosen.kind, way=chosen.way, problem=problem, cpu_features=features)
                return built, contents
        except BadInput as error:
            problem = problem or error.problem
        except TVM_ERRORS as error:
            problem = problem or last_line(error)
    return FunctionBuilt(kind="unscheduled", problem=problem), _compiled(order, module)


def _of_record(order: FunctionOrder, module: Any) -> _Chosen | None:
    if order.trace is None:
        return None
    return _Chosen(replay(module, order.trace, order.target.kind), "record", "")


def _untried(order: FunctionOrder, module: Any) -> _Chosen | None:
    if not order.is_scheduled or not order.names:
        return None
    if order.target.kind == _GPU:
        bound = gpu_schedule(module, order.target)
        return None if bound is None else _Chosen(bound.module, "untried", bound.way)
    found = untried_schedule(module, order.target)
    return None if found.way == "none" else _Chosen(found.module, "untried", found.way)


def _compiled(order: FunctionOrder, module: Any) -> bytes:
    if order.target.kind == _GPU:
        module = bound_to_threads(module, tvm_target(order.target))
    if order.names:
        function = module[ENTRY]
        module = tvm.IRModule({name: function.with_attr("global_symbol", name) for name in order.names})
    if order.target.kind == _GPU:
        return cuda_source(module, order.target.canonical).model_dump_json().encode()
    if order.unit is not None:
        return c_source(module, order.unit).encode()
    path = Path(order.folder) / _OBJECT
    build_scheduled(module, tvm_target(order.target)).write_to_file(str(path), "o")
    return path.read_bytes()
