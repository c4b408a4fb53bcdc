/* The runtime of compiled kernels for programs without TVM: what a kernel calls, and how to call a kernel.
 *
 * C11, or C++. Needs the C library, and POSIX threads unless TUNEFARM_RUNTIME_SERIAL is defined.
 *
 * A kernel is a function with the type TunefarmKernel. Its arguments are tensors in DLPack's layout, outputs last:
 *
 *     int64_t shape[2] = {64, 64};
 *     DLTensor a = tunefarm_tensor(data, 2, shape, kDLFloat, 32);
 *     DLTensor *arguments[] = {&a, &b, &c};
 *     if (tunefarm_call(__tvm_ffi_main, arguments, 3) != 0) puts(tunefarm_last_error());
 */
#ifndef TUNEFARM_RUNTIME_H_
#define TUNEFARM_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TVM_DLL
#define TUNEFARM_MAX_ARGUMENTS 64

/* DLPack 1.0. */
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;

typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 } DLDataTypeCode;
enum { kDLCPU = 1 };

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;

/* TVM's calling convention. */
typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
    const char *v_c_str;
  };
} TVMFFIAny;
enum { kTVMFFINone = 0, kTVMFFIDLTensorPtr = 7 };

typedef int32_t (*TunefarmKernel)(void *handle, void *arguments, int32_t count, void *result);

/* A contiguous tensor on the processor. Kernels require data that is aligned to 64 bytes. */
DLTensor tunefarm_tensor(void *data, int32_t dimensions, int64_t *shape, DLDataTypeCode code, uint8_t bits);

/* Calls a kernel with tensors. Returns 0, or a number other than 0: then tunefarm_last_error() says why. */
int tunefarm_call(TunefarmKernel kernel, DLTensor *const *arguments, int32_t count);

/* The last error of this thread. */
const char *tunefarm_last_error(void);

/* Sets the number of threads of parallel loops, the caller included; 1 until it is called. Call it once, before any
 * kernel, with the number that the kernel was tuned for. Returns 0, or -1 if the threads cannot be started; kernels
 * then run on those that were. */
int tunefarm_start_threads(int threads);

/* Frees the workspaces that this thread keeps for its next kernels. Call it before a thread ends that ran kernels. */
void tunefarm_release_workspaces(void);

/* The bits of a number as another type, for kernels in C. */
#define TUNEFARM_REINTERPRET(to, from)           \
  static inline to tunefarm_##to##_of(from value) { \
    to result;                                   \
    memcpy(&result, &value, sizeof result);      \
    return result;                               \
  }
TUNEFARM_REINTERPRET(float, int32_t)
TUNEFARM_REINTERPRET(int32_t, float)
TUNEFARM_REINTERPRET(double, int64_t)
TUNEFARM_REINTERPRET(int64_t, double)

/* What kernels call. */
typedef struct {
  void *sync_handle;
  int32_t num_task;
} TVMParallelGroupEnv;
typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *environment, void *closure);

int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void *closure, int num_task);
int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *environment);
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int code_hint, int bits_hint);
int TVMBackendFreeWorkspace(int device_type, int device_id, void *workspace);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count);

#ifdef __cplusplus
}
#endif
#endif
