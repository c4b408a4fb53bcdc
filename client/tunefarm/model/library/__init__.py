"""Parts of a model that other libraries run, in TVM's virtual machine and on its tensors."""
