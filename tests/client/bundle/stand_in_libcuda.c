/* In place of the NVIDIA driver: keeps memory, checks sizes and order of calls, writes each call to the file $CALLS, and
 * executes nothing. $PARAMETERS has the number of parameters of each kernel, as name=number; with a comma after it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NOT_FOUND = 500 };
static struct { char *memory; size_t bytes; } block[1000];
static int blocks, live, depth, retained, initialized, modules;
static int context_object, module_object;
static char kernel[100][100];
static int kernels;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  __builtin_va_list values;
  FILE *file = fopen(getenv("CALLS"), "a");
  if (file == NULL) abort();
  __builtin_va_start(values, format);
  vfprintf(file, format, values);
  __builtin_va_end(values);
  fclose(file);
}

static int number_of(const char *name, int otherwise) { return getenv(name) == NULL ? otherwise : atoi(getenv(name)); }

static int block_of(uint64_t address, size_t bytes) {
  for (int i = 0; i < blocks; ++i) {
    uint64_t begin = (uint64_t)(uintptr_t)block[i].memory;
    if (block[i].memory != NULL && address >= begin && address + bytes <= begin + block[i].bytes) return i;
  }
  return -1;
}

Result cuInit(unsigned flags) { return initialized = 1, flags == 0 ? 0 : INVALID_VALUE; }
Result cuDriverGetVersion(int *version) { return *version = number_of("DRIVER", 13000), 0; }
Result cuDeviceGet(int *device, int number) { return *device = number, !initialized ? NOT_INITIALIZED : number != 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  if (device != 0) return INVALID_VALUE;
  *value = attribute == 75 ? number_of("MAJOR", 8) : attribute == 76 ? number_of("MINOR", 0) : attribute == 97 ? 101376 : -1;
  return *value < 0 ? INVALID_VALUE : 0;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &context_object, ++retained, device; }
Result cuDevicePrimaryCtxRelease_v2(int device) {
  say("release: %d blocks, %d modules\n", live, modules);
  return --retained < 0 ? INVALID_CONTEXT : device;
}
Result cuCtxPushCurrent_v2(void *context) { return ++depth, context == &context_object && retained ? 0 : INVALID_CONTEXT; }
Result cuCtxPopCurrent_v2(void **context) { return *context = &context_object, --depth < 0 ? INVALID_CONTEXT : 0; }
Result cuCtxSynchronize(void) { return say("synchronize\n"), depth == 1 ? 0 : INVALID_CONTEXT; }
Result cuModuleLoadData(void **module, const void *image) {
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  if (depth != 1) return INVALID_CONTEXT;
  if (magic != 0xBA55ED50) return INVALID_IMAGE;
  return *module = &module_object, ++modules, 0;
}
Result cuModuleUnload(void *module) { return module == &module_object && --modules >= 0 ? 0 : INVALID_VALUE; }
Result cuModuleGetFunction(void **function, void *module, const char *name) {
  char known[120];
  snprintf(known, sizeof known, "%s=", name);
  if (module != &module_object || strstr(getenv("PARAMETERS"), known) == NULL) return NOT_FOUND;
  strcpy(kernel[kernels], name);
  return *function = kernel[kernels++], 0;
}
Result cuFuncSetAttribute(void *function, int attribute, int value) {
  say("attribute %s %d %d\n", (const char *)function, attribute, value);
  return attribute == 8 ? 0 : INVALID_VALUE;
}
Result cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (depth != 1 || bytes == 0) return bytes == 0 ? INVALID_VALUE : INVALID_CONTEXT;
  say("allocate %d: %zu\n", blocks, bytes);
  block[blocks].memory = calloc(1, bytes), block[blocks].bytes = bytes;
  *address = (uint64_t)(uintptr_t)block[blocks].memory;
  return ++blocks, ++live, 0;
}
Result cuMemFree_v2(uint64_t address) {
  int number = block_of(address, 1);
  if (number < 0 || (uint64_t)(uintptr_t)block[number].memory != address) return INVALID_VALUE;
  free(block[number].memory);
  block[number].memory = NULL;
  return --live, 0;
}
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  int number = block_of(to, bytes);
  if (number < 0 || depth != 1) return INVALID_VALUE;
  say("in %d: %zu\n", number, bytes);
  return memcpy((void *)(uintptr_t)to, from, bytes), 0;
}
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  int number = block_of(from, bytes);
  if (number < 0 || depth != 1) return INVALID_VALUE;
  say("out %d: %zu\n", number, bytes);
  return memcpy(to, (const void *)(uintptr_t)from, bytes), 0;
}
Result cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
  say("copy %d %d: %zu\n", block_of(to, bytes), block_of(from, bytes), bytes);
  return block_of(to, bytes) < 0 || block_of(from, bytes) < 0 ? INVALID_VALUE : 0;
}
Result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **parameters, void **extra) {
  char known[120];
  snprintf(known, sizeof known, "%s=", (const char *)function);
  int count = atoi(strstr(getenv("PARAMETERS"), known) + strlen(known));
  if (depth != 1 || stream != NULL || extra != NULL) return INVALID_VALUE;
  say("launch %s %u,%u,%u %u,%u,%u %u:", (const char *)function, gx, gy, gz, bx, by, bz, shared);
  for (int i = 0; i < count; ++i) {
    uint64_t address;
    memcpy(&address, parameters[i], sizeof address);
    int number = block_of(address, 1);
    if (number < 0) return INVALID_VALUE;
    say(" %d", number);
  }
  say("\n");
  return number_of("FAILS", 0);
}
Result cuGetErrorString(Result result, const char **text) { return *text = result ? "of the stand-in" : "no error", 0; }
