/* In place of the CUDA toolkit's file of this name, of which kernels use nothing. */
