/* See tunefarm_cuda.h. */
#include "tunefarm_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The driver's interface, as far as it is used. */
typedef int Result;
typedef uint64_t Address;
enum { SHARED_OPT_IN = 97, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* attributes of devices */
enum { MAX_DYNAMIC_SHARED_BYTES = 8 };                                       /* an attribute of kernels */
enum { kDLCUDA = 2, MAX_POINTERS = TUNEFARM_MAX_ARGUMENTS };

#define DRIVER_FUNCTIONS(X)                                                                                      \
  X(init, cuInit, (unsigned))                                                                                    \
  X(version, cuDriverGetVersion, (int *))                                                                        \
  X(device, cuDeviceGet, (int *, int))                                                                           \
  X(attribute, cuDeviceGetAttribute, (int *, int, int))                                                          \
  X(retain, cuDevicePrimaryCtxRetain, (void **, int))                                                            \
  X(release, cuDevicePrimaryCtxRelease_v2, (int))                                                                \
  X(push, cuCtxPushCurrent_v2, (void *))                                                                         \
  X(pop, cuCtxPopCurrent_v2, (void **))                                                                          \
  X(synchronize, cuCtxSynchronize, (void))                                                                       \
  X(load, cuModuleLoadData, (void **, const void *))                                                             \
  X(unload, cuModuleUnload, (void *))                                                                            \
  X(function, cuModuleGetFunction, (void **, void *, const char *))                                              \
  X(set_attribute, cuFuncSetAttribute, (void *, int, int))                                                       \
  X(allocate, cuMemAlloc_v2, (Address *, size_t))                                                                \
  X(free, cuMemFree_v2, (Address))                                                                               \
  X(to_device, cuMemcpyHtoD_v2, (Address, const void *, size_t))                                                 \
  X(to_host, cuMemcpyDtoH_v2, (void *, Address, size_t))                                                         \
  X(copy, cuMemcpyDtoD_v2, (Address, Address, size_t))                                                           \
  X(launch, cuLaunchKernel,                                                                                      \
    (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))    \
  X(error_text, cuGetErrorString, (Result, const char **))

static struct {
  void *library;
  int is_ready;
#define MEMBER(name, symbol, parameters) Result(*name) parameters;
  DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} driver;

struct TunefarmCudaSession {
  const TunefarmModel *model;
  int device, version, has_context;
  void *context;
  Address weights, arena, *inputs, *outputs;
  int32_t loaded; /* calls of the model whose functions are loaded */
};

static int fail(const char *problem, const char *detail) {
  char message[400];
  snprintf(message, sizeof message, "%s%s", problem, detail);
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

/* 0 if the driver succeeded. */
static int check(Result result, const char *step) {
  if (result == 0) return 0;
  const char *text = NULL;
  char message[400];
  if (driver.error_text(result, &text) != 0 || text == NULL) text = "unknown error";
  snprintf(message, sizeof message, "%s: %s (%d)", step, text, result);
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", message);
  return -1;
}

static int find(void *function, size_t size, const char *symbol) {
  void *found = dlsym(driver.library, symbol);
  if (found == NULL) return fail("libcuda.so.1 has no function ", symbol);
  memcpy(function, &found, size);
  return 0;
}

/* Again after it failed: the device may have been missing. */
static int init_driver(void) {
  if (!driver.is_ready && check(driver.init(0), "cuInit") != 0) return -1;
  driver.is_ready = 1;
  return 0;
}

static int load_driver(void) {
  if (driver.library != NULL) return init_driver();
  driver.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver.library == NULL) return fail("the NVIDIA driver cannot be loaded: ", dlerror());
  int failed = 0;
#define FIND(name, symbol, parameters) failed = failed || find(&driver.name, sizeof driver.name, #symbol) != 0;
  DRIVER_FUNCTIONS(FIND)
#undef FIND
  if (failed) {
    dlclose(driver.library);
    driver.library = NULL;
    return -1;
  }
  return init_driver();
}

static int enter(TunefarmCudaSession *session) { return check(driver.push(session->context), "cuCtxPushCurrent"); }

static void leave(void) {
  void *context;
  driver.pop(&context);
}

static int allocate(uint64_t bytes, Address *address) {
  return bytes == 0 ? 0 : check(driver.allocate(address, (size_t)bytes), "cuMemAlloc");
}

static void release(Address *address) {
  if (*address != 0) driver.free(*address);
  *address = 0;
}

static const TunefarmTensor *tensor_of(const TunefarmModel *model, const TunefarmArgument *argument) {
  return argument->tensor < 0 ? NULL : &model->tensor[argument->tensor];
}

static int allocate_each(const TunefarmModel *model, const TunefarmArgument *arguments, int32_t count,
                         Address **addresses) {
  *addresses = calloc((size_t)count + 1, sizeof **addresses);
  if (*addresses == NULL) return fail("out of memory", "");
  for (int32_t i = 0; i < count; ++i) {
    const TunefarmTensor *tensor = tensor_of(model, &arguments[i]);
    if (tensor != NULL && allocate(tensor->bytes, &(*addresses)[i]) != 0) return -1;
  }
  return 0;
}

static int prepare(TunefarmCudaSession *session, const void *weights) {
  const TunefarmModel *model = session->model;
  if (allocate(model->weights_bytes, &session->weights) != 0 || allocate(model->arena_bytes, &session->arena) != 0 ||
      allocate_each(model, model->input, model->inputs, &session->inputs) != 0 ||
      allocate_each(model, model->output, model->outputs, &session->outputs) != 0)
    return -1;
  if (model->weights_bytes != 0 &&
      check(driver.to_device(session->weights, weights, (size_t)model->weights_bytes), "copying the weights") != 0)
    return -1;
  for (; session->loaded < model->calls; ++session->loaded) {
    TunefarmKernel kernel = model->call[session->loaded].kernel;
    if (kernel != NULL && kernel(session, NULL, TUNEFARM_CUDA_LOAD, NULL) != 0) return -1;
  }
  return 0;
}

int tunefarm_cuda_open(const TunefarmModel *model, const void *weights, int device, TunefarmCudaSession **session) {
  *session = NULL;
  if (load_driver() != 0) return -1;
  TunefarmCudaSession *opened = calloc(1, sizeof *opened);
  if (opened == NULL) return fail("out of memory", "");
  opened->model = model;
  int failed = check(driver.version(&opened->version), "cuDriverGetVersion") != 0 ||
               check(driver.device(&opened->device, device), "cuDeviceGet") != 0 ||
               check(driver.retain(&opened->context, opened->device), "cuDevicePrimaryCtxRetain") != 0;
  if (!failed) {
    opened->has_context = 1;
    failed = enter(opened) != 0;
    if (!failed) {
      failed = prepare(opened, weights) != 0;
      leave();
    }
  }
  if (failed) {
    tunefarm_cuda_close(opened);
    return -1;
  }
  *session = opened;
  return 0;
}

void tunefarm_cuda_close(TunefarmCudaSession *session) {
  if (session == NULL) return;
  if (session->has_context && driver.push(session->context) == 0) {
    while (session->loaded > 0) {
      TunefarmKernel kernel = session->model->call[--session->loaded].kernel;
      if (kernel != NULL) kernel(session, NULL, TUNEFARM_CUDA_UNLOAD, NULL);
    }
    for (int32_t i = 0; session->inputs != NULL && i < session->model->inputs; ++i) release(&session->inputs[i]);
    for (int32_t i = 0; session->outputs != NULL && i < session->model->outputs; ++i) release(&session->outputs[i]);
    release(&session->arena);
    release(&session->weights);
    leave();
  }
  if (session->has_context) driver.release(session->device);
  free(session->inputs);
  free(session->outputs);
  free(session);
}

static Address address_of(const TunefarmCudaSession *session, const TunefarmTensor *tensor) {
  switch (tensor->place) {
    case TUNEFARM_INPUT: return session->inputs[tensor->position];
    case TUNEFARM_OUTPUT: return session->outputs[tensor->position];
    case TUNEFARM_WEIGHTS: return session->weights + tensor->position;
    default: return session->arena + tensor->position;
  }
}

static int run_call(TunefarmCudaSession *session, const TunefarmCall *call) {
  DLTensor tensors[TUNEFARM_MAX_ARGUMENTS];
  TVMFFIAny arguments[TUNEFARM_MAX_ARGUMENTS];
  if (call->count > TUNEFARM_MAX_ARGUMENTS) return fail("a kernel has too many arguments", "");
  const TunefarmTensor *table = session->model->tensor;
  if (call->kernel == NULL) {
    const TunefarmTensor *from = &table[call->tensors[0]], *to = &table[call->tensors[1]];
    return check(driver.copy(address_of(session, to), address_of(session, from), (size_t)to->bytes), "cuMemcpyDtoD");
  }
  memset(arguments, 0, sizeof arguments);
  for (int32_t i = 0; i < call->count; ++i) {
    const TunefarmTensor *tensor = &table[call->tensors[i]];
    void *data = (void *)(uintptr_t)address_of(session, tensor);
    DLTensor given = {data, {kDLCUDA, session->device}, tensor->dimensions, tensor->type, (int64_t *)tensor->shape, NULL, 0};
    tensors[i] = given;
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &tensors[i];
  }
  return call->kernel(session, arguments, call->count, NULL);
}

static int run(TunefarmCudaSession *session, void *const *inputs, void *const *outputs) {
  const TunefarmModel *model = session->model;
  for (int32_t i = 0; i < model->inputs; ++i) {
    const TunefarmTensor *tensor = tensor_of(model, &model->input[i]);
    if (tensor != NULL && tensor->bytes != 0 &&
        check(driver.to_device(session->inputs[i], inputs[i], (size_t)tensor->bytes), "copying an input") != 0)
      return -1;
  }
  for (int32_t i = 0; i < model->calls; ++i)
    if (run_call(session, &model->call[i]) != 0) return -1;
  if (check(driver.synchronize(), "running the kernels") != 0) return -1;
  for (int32_t i = 0; i < model->outputs; ++i) {
    const TunefarmTensor *tensor = tensor_of(model, &model->output[i]);
    if (tensor != NULL && tensor->bytes != 0 &&
        check(driver.to_host(outputs[i], session->outputs[i], (size_t)tensor->bytes), "copying an output") != 0)
      return -1;
  }
  return 0;
}

int tunefarm_cuda_run(TunefarmCudaSession *session, void *const *inputs, void *const *outputs) {
  if (enter(session) != 0) return -1;
  int result = run(session, inputs, outputs);
  leave();
  return result;
}

static int require_device(const TunefarmCudaModule *module, const TunefarmCudaSession *session) {
  int major = 0, minor = 0;
  char message[200];
  if (check(driver.attribute(&major, CAPABILITY_MAJOR, session->device), "cuDeviceGetAttribute") != 0 ||
      check(driver.attribute(&minor, CAPABILITY_MINOR, session->device), "cuDeviceGetAttribute") != 0)
    return -1;
  int own = major * 10 + minor, needed = module->major * 10 + module->minor;
  if (own < needed || (module->is_exact && own != needed)) {
    snprintf(message, sizeof message, "the GPU has the compute capability %d.%d, and the kernels need %d.%d%s", major,
             minor, module->major, module->minor, module->is_exact ? " exactly" : "");
    return fail(message, "");
  }
  if (session->version < module->driver) {
    snprintf(message, sizeof message, "the driver has the CUDA version %d.%d, and the kernels need %d.%d",
             session->version / 1000, session->version % 1000 / 10, module->driver / 1000, module->driver % 1000 / 10);
    return fail(message, "");
  }
  return 0;
}

static int load_module(TunefarmCudaModule *module, const TunefarmCudaSession *session) {
  module->context = session->context;
  if (module->users == 0 && (require_device(module, session) != 0 ||
                             check(driver.load(&module->loaded, module->image), "cuModuleLoadData") != 0))
    return -1;
  module->users++;
  return 0;
}

static int find_kernel(TunefarmCudaFunction *function, TunefarmCudaLaunch *launch, const TunefarmCudaSession *session) {
  char message[200];
  int limit = 0;
  if (check(driver.function(&launch->function, function->module->loaded, launch->kernel), launch->kernel) != 0) return -1;
  if (launch->dynamic_shared_bytes == 0) return 0;
  if (check(driver.attribute(&limit, SHARED_OPT_IN, session->device), "cuDeviceGetAttribute") != 0) return -1;
  if (launch->dynamic_shared_bytes > (uint32_t)limit) {
    snprintf(message, sizeof message, "the GPU has %d bytes of shared memory for a block, and %s needs %u", limit,
             launch->kernel, (unsigned)launch->dynamic_shared_bytes);
    return fail(message, "");
  }
  return check(driver.set_attribute(launch->function, MAX_DYNAMIC_SHARED_BYTES, (int)launch->dynamic_shared_bytes),
               "cuFuncSetAttribute");
}

static void unload(TunefarmCudaFunction *function) {
  if (--function->users > 0) return;
  for (int32_t i = 0; i < function->workspaces; ++i) release(&function->workspace[i]);
  if (--function->module->users > 0) return;
  driver.unload(function->module->loaded);
  function->module->loaded = NULL;
}

static int load(TunefarmCudaFunction *function, const TunefarmCudaSession *session) {
  if (function->module->users > 0 && function->module->context != session->context)
    return fail("the functions are in use on another device", "");
  if (function->users++ > 0) return 0;
  if (load_module(function->module, session) != 0) {
    function->users--;
    return -1;
  }
  int failed = 0;
  for (int32_t i = 0; i < function->launches && !failed; ++i)
    failed = find_kernel(function, &function->launch[i], session) != 0;
  for (int32_t i = 0; i < function->workspaces && !failed; ++i)
    failed = allocate(function->workspace_bytes[i], &function->workspace[i]) != 0;
  if (failed) unload(function);
  return failed ? -1 : 0;
}

int32_t tunefarm_cuda_call(TunefarmCudaFunction *function, TunefarmCudaSession *session, const void *arguments,
                           int32_t count) {
  if (session == NULL) return fail("kernels of a GPU are called by tunefarm_cuda_run", "");
  if (count == TUNEFARM_CUDA_LOAD) return load(function, session);
  if (count == TUNEFARM_CUDA_UNLOAD) {
    unload(function);
    return 0;
  }
  if (count != function->tensors) return fail("a function has another number of tensors than its kernels", "");
  const TVMFFIAny *given = arguments;
  for (int32_t n = 0; n < function->launches; ++n) {
    const TunefarmCudaLaunch *launch = &function->launch[n];
    Address pointers[MAX_POINTERS];
    void *addresses[MAX_POINTERS];
    if (launch->count > MAX_POINTERS) return fail("a kernel has too many arguments: ", launch->kernel);
    for (int32_t i = 0; i < launch->count; ++i) {
      int32_t number = launch->arguments[i];
      pointers[i] = number < count ? (Address)(uintptr_t)((const DLTensor *)given[number].v_ptr)->data
                                   : function->workspace[number - count];
      addresses[i] = &pointers[i];
    }
    Result result = driver.launch(launch->function, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                                  launch->block[1], launch->block[2], launch->dynamic_shared_bytes, NULL, addresses, NULL);
    if (check(result, launch->kernel) != 0) return -1;
  }
  return 0;
}
