"""Parts of models that other libraries run in TVM's virtual machine."""
