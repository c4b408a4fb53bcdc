"""The buffers and inputs that a program of torch changes, which become inputs and results of its function."""

from typing import Final, NamedTuple

from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.operators.complex_numbers import is_complex
from tunefarm_schemas.bad_input import BadInput

RESULTS: Final = (OutputKind.USER_OUTPUT, OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
"""What a function returns, in this order; those of one kind are in the order of the program's outputs."""


class ModelState(NamedTuple):
    """What a program changes when it runs.

    The function takes ``buffers`` after the program's own inputs. After the program's own results, it returns the new
    values of ``buffers``, then those of ``inputs``.

    Attributes:
        buffers: the names that torch gives the buffers, by the names of their inputs.
        inputs: the names of the program's own inputs that it changes.
    """

    buffers: dict[str, str]
    inputs: tuple[str, ...]

    def notes(self) -> tuple[str, ...]:
        """What the user of the function should know."""
        notes = []
        if self.buffers:
            named = ", ".join(f"{name} ({buffer})" for name, buffer in self.buffers.items())
            notes.append(
                f"The model changes buffers. They are further inputs, and their new values further results: {named}."
            )
        if self.inputs:
            notes.append(
                f"The model changes its inputs. Their new values are further results: {', '.join(self.inputs)}."
            )
        return tuple(notes)


def state_of(program: ExportedProgram) -> ModelState:
    """What a program whose operators are decomposed changes; before, operators in place hide it.

    Raises:
        BadInput: it changes parameters or complex numbers.
    """
    signature = program.graph_signature
    changed = [(each.kind, str(each.target)) for each in signature.output_specs]
    if parameters := [target for kind, target in changed if kind == OutputKind.PARAMETER_MUTATION]:
        problem = f"the model changes its parameters {', '.join(parameters[:10])} when it runs."
        raise BadInput(FIELD, problem, "Register them as buffers, or take them as inputs.")
    names = {buffer: name for name, buffer in signature.inputs_to_buffers.items()}
    state = ModelState(
        buffers={names[target]: target for kind, target in changed if kind == OutputKind.BUFFER_MUTATION},
        inputs=tuple(target for kind, target in changed if kind == OutputKind.USER_INPUT_MUTATION),
    )
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in state.buffers and is_complex(node.meta.get("val")):
            problem = f"the model changes {state.buffers[node.name]}, which has complex numbers."
            raise BadInput(
                FIELD, problem, "Keep real and imaginary parts, and call torch.view_as_complex in the model."
            )
    return state
