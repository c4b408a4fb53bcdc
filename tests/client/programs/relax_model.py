"""A Relax model, which must be lowered before tuning."""

from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):  # noqa: N805 - R.function, no method
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y
