/* In place of the CUDA toolkit's file of this name: __dp4a is in device_functions.h. */
