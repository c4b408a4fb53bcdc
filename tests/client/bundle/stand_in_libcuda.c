/* In place of the NVIDIA driver: keeps memory, checks sizes and order of calls, and writes each call to the file $CALLS.
 *
 * Launches execute nothing, unless $KERNELS or stand_in_load names libraries of kernels that are compiled for the host
 * (emulated_gpu/emulator.py); several have colons between them. Without them, $PARAMETERS has the number of parameters of
 * each kernel, as name=number; with a comma after it.
 *
 * Memory is full of NaN when it is allocated. Pages without access stand before and after it. Where its end is in the middle
 * of a page, the next synchronization or release fails if something was written to the rest of the page. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulated_kernel.h"

typedef int Result;
enum {
  INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, FILE_NOT_FOUND = 301, NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719
};
enum { MAX_DYNAMIC_SHARED_BYTES = 49152, MAX_DYNAMIC_SHARED_BYTES_OPT_IN = 101376 };
enum { PAGE_BYTES = 4096, NO_ACCESS_BYTES = 1 << 20, ALIGNMENT_BYTES = 16 };
/* `memory` is what programs get. It ends where `pages` do, but for its alignment. */
static struct { char *memory, *pages; size_t bytes, pages_bytes; } block[1000];
static int blocks, live, depth, retained, initialized, modules;
static int context_object, module_object;
static struct { char name[256]; int parameters, dynamic_shared_bytes; const EmulatedKernel *code; } kernel[1000];
static int kernels;
static void *library[100];
static int libraries;
static char problem[500] = "of the stand-in";

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  __builtin_va_list values;
  if (getenv("CALLS") == NULL) return;
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

static void allocate(int i, size_t bytes) {
  size_t pages_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  char *begin = mmap(NULL, pages_bytes + 2 * NO_ACCESS_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED || mprotect(begin + NO_ACCESS_BYTES, pages_bytes, PROT_READ | PROT_WRITE) != 0) abort();
  block[i].pages = begin + NO_ACCESS_BYTES, block[i].pages_bytes = pages_bytes, block[i].bytes = bytes;
  block[i].memory = block[i].pages + pages_bytes - (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  emulated_poison(block[i].pages, pages_bytes, EMULATED_GUARD);
  emulated_poison(block[i].memory, bytes, EMULATED_UNWRITTEN);
}

static void release(int i) {
  munmap(block[i].pages - NO_ACCESS_BYTES, block[i].pages_bytes + 2 * NO_ACCESS_BYTES);
  block[i].memory = NULL;
}

/* Whether nothing wrote to the pages of a block before or after it. */
static int is_intact(int i) {
  char *end = block[i].memory + block[i].bytes;
  return emulated_is_poison(block[i].pages, (size_t)(block[i].memory - block[i].pages), EMULATED_GUARD) &&
         emulated_is_poison(end, (size_t)(block[i].pages + block[i].pages_bytes - end), EMULATED_GUARD);
}

static Result check_guards(void) {
  for (int i = 0; i < blocks; ++i)
    if (block[i].memory != NULL && !is_intact(i)) {
      snprintf(problem, sizeof problem, "a kernel wrote outside of the %zu bytes of allocation %d", block[i].bytes, i);
      return ILLEGAL_ADDRESS;
    }
  return 0;
}

Result stand_in_load(const char *path) {
  void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (loaded == NULL) return snprintf(problem, sizeof problem, "%s", dlerror()), FILE_NOT_FOUND;
  return library[libraries++] = loaded, 0;
}

static Result load_libraries(void) {
  char paths[4096], *rest = NULL;
  if (getenv("KERNELS") == NULL) return 0;
  snprintf(paths, sizeof paths, "%s", getenv("KERNELS"));
  for (char *path = strtok_r(paths, ":", &rest); path != NULL; path = strtok_r(NULL, ":", &rest))
    if (stand_in_load(path) != 0) return FILE_NOT_FOUND;
  return 0;
}

static const EmulatedKernel *code_of(const char *name) {
  char symbol[300];
  snprintf(symbol, sizeof symbol, "emulated_%s", name);
  for (int i = 0; i < libraries; ++i)
    if (dlsym(library[i], symbol) != NULL) return dlsym(library[i], symbol);
  return NULL;
}

static int parameters_of(const char *name) {
  char known[300];
  snprintf(known, sizeof known, "%s=", name);
  const char *found = getenv("PARAMETERS") == NULL ? NULL : strstr(getenv("PARAMETERS"), known);
  return found == NULL ? -1 : atoi(found + strlen(known));
}

Result cuInit(unsigned flags) { return initialized = 1, flags == 0 ? load_libraries() : INVALID_VALUE; }
Result cuDriverGetVersion(int *version) { return *version = number_of("DRIVER", 13000), 0; }
Result cuDeviceGet(int *device, int number) { return *device = number, !initialized ? NOT_INITIALIZED : number != 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  if (device != 0) return INVALID_VALUE;
  *value = attribute == 75 ? number_of("MAJOR", 8) : attribute == 76 ? number_of("MINOR", 0)
           : attribute == 97 ? MAX_DYNAMIC_SHARED_BYTES_OPT_IN : -1;
  return *value < 0 ? INVALID_VALUE : 0;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &context_object, ++retained, device; }
Result cuDevicePrimaryCtxRelease_v2(int device) {
  say("release: %d blocks, %d modules\n", live, modules);
  return --retained < 0 ? INVALID_CONTEXT : device;
}
Result cuCtxPushCurrent_v2(void *context) { return ++depth, context == &context_object && retained ? 0 : INVALID_CONTEXT; }
Result cuCtxPopCurrent_v2(void **context) { return *context = &context_object, --depth < 0 ? INVALID_CONTEXT : 0; }
Result cuCtxSynchronize(void) { return say("synchronize\n"), depth == 1 ? check_guards() : INVALID_CONTEXT; }
Result cuModuleLoadData(void **module, const void *image) {
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  if (depth != 1) return INVALID_CONTEXT;
  if (magic != 0xBA55ED50) return INVALID_IMAGE;
  return *module = &module_object, ++modules, 0;
}
Result cuModuleUnload(void *module) { return module == &module_object && --modules >= 0 ? 0 : INVALID_VALUE; }
Result cuModuleGetFunction(void **function, void *module, const char *name) {
  const EmulatedKernel *code = code_of(name);
  int parameters = code != NULL ? code->parameters : parameters_of(name);
  if (module != &module_object || parameters < 0 || (libraries > 0 && code == NULL)) return NOT_FOUND;
  if (kernels == sizeof kernel / sizeof kernel[0]) return snprintf(problem, sizeof problem, "too many kernels"), NOT_FOUND;
  snprintf(kernel[kernels].name, sizeof kernel[kernels].name, "%s", name);
  kernel[kernels].parameters = parameters, kernel[kernels].code = code;
  kernel[kernels].dynamic_shared_bytes = MAX_DYNAMIC_SHARED_BYTES;
  return *function = &kernel[kernels++], 0;
}
static int number_of_kernel(const void *function) {
  for (int i = 0; i < kernels; ++i)
    if (function == &kernel[i]) return i;
  abort();
}
Result cuFuncSetAttribute(void *function, int attribute, int value) {
  int number = number_of_kernel(function);
  say("attribute %s %d %d\n", kernel[number].name, attribute, value);
  if (attribute != 8 || value < 0 || value > MAX_DYNAMIC_SHARED_BYTES_OPT_IN) return INVALID_VALUE;
  return kernel[number].dynamic_shared_bytes = value, 0;
}
Result cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (depth != 1 || bytes == 0) return bytes == 0 ? INVALID_VALUE : INVALID_CONTEXT;
  say("allocate %d: %zu\n", blocks, bytes);
  if (blocks == sizeof block / sizeof *block) abort();
  allocate(blocks, bytes);
  *address = (uint64_t)(uintptr_t)block[blocks].memory;
  return ++blocks, ++live, 0;
}
Result cuMemFree_v2(uint64_t address) {
  int number = block_of(address, 1);
  if (number < 0 || (uint64_t)(uintptr_t)block[number].memory != address) return INVALID_VALUE;
  Result result = check_guards();
  release(number);
  return --live, result;
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
  if (block_of(to, bytes) < 0 || block_of(from, bytes) < 0) return INVALID_VALUE;
  return memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes), 0;
}
Result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **parameters, void **extra) {
  int number = number_of_kernel(function);
  if (depth != 1 || stream != NULL || extra != NULL || shared > (unsigned)kernel[number].dynamic_shared_bytes)
    return INVALID_VALUE;
  say("launch %s %u,%u,%u %u,%u,%u %u:", kernel[number].name, gx, gy, gz, bx, by, bz, shared);
  for (int i = 0; i < kernel[number].parameters; ++i) {
    uint64_t address;
    memcpy(&address, parameters[i], sizeof address);
    int found = block_of(address, 1);
    if (found < 0) return INVALID_VALUE;
    say(" %d", found);
  }
  say("\n");
  if (kernel[number].code == NULL || number_of("FAILS", 0) != 0) return number_of("FAILS", 0);
  const unsigned grid[3] = {gx, gy, gz}, threads[3] = {bx, by, bz};
  const char *failure = kernel[number].code->run(grid, threads, shared, parameters);
  return failure == NULL ? 0 : (snprintf(problem, sizeof problem, "%s", failure), LAUNCH_FAILED);
}
Result cuGetErrorString(Result result, const char **text) { return *text = result ? problem : "no error", 0; }
