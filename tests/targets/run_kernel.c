/* Reads tensors from standard input, calls a kernel with them, and writes them to standard output.
 *
 * Input: the number of threads and of tensors, then of each its type code, bits and number of dimensions, its shape, its
 * bytes. All numbers have eight bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "tunefarm_runtime.h"

int32_t __tvm_ffi_main(void *handle, void *arguments, int32_t count, void *result);

static int64_t number(void) {
  int64_t value;
  if (fread(&value, sizeof value, 1, stdin) != 1) exit(3);
  return value;
}

int main(void) {
  static DLTensor tensors[TUNEFARM_MAX_ARGUMENTS], *arguments[TUNEFARM_MAX_ARGUMENTS];
  static int64_t shapes[TUNEFARM_MAX_ARGUMENTS][8];
  static size_t sizes[TUNEFARM_MAX_ARGUMENTS];
  if (tunefarm_start_threads((int)number()) != 0) return 4;
  int32_t count = (int32_t)number();
  for (int32_t i = 0; i < count; ++i) {
    DLDataTypeCode code = (DLDataTypeCode)number();
    uint8_t bits = (uint8_t)number();
    int32_t dimensions = (int32_t)number();
    sizes[i] = bits / 8;
    for (int32_t d = 0; d < dimensions; ++d) sizes[i] *= (size_t)(shapes[i][d] = number());
    void *data = aligned_alloc(64, (sizes[i] + 63) / 64 * 64);
    if (data == NULL || fread(data, 1, sizes[i], stdin) != sizes[i]) return 3;
    tensors[i] = tunefarm_tensor(data, dimensions, shapes[i], code, bits);
    arguments[i] = &tensors[i];
  }
  if (tunefarm_call(__tvm_ffi_main, arguments, count) != 0) {
    fprintf(stderr, "%s\n", tunefarm_last_error());
    return 1;
  }
  for (int32_t i = 0; i < count; ++i) fwrite(tensors[i].data, 1, sizes[i], stdout);
  return 0;
}
