/* Runs the functions of a bundle on an NVIDIA GPU. Needs the driver's library, libcuda.so.1, when it runs, and nothing of
 * CUDA when it is compiled or linked.
 *
 *     TunefarmCudaSession *session;
 *     if (tunefarm_cuda_open(&my_model, weights, 0, &session) != 0) puts(tunefarm_last_error());
 *     void *inputs[] = {image}, *outputs[] = {scores};
 *     if (tunefarm_cuda_run(session, inputs, outputs) != 0) puts(tunefarm_last_error());
 *     tunefarm_cuda_close(session);
 *
 * A session owns the memory on the device of weights, intermediate tensors, inputs and outputs. Inputs and outputs of a run
 * are in memory of the host; a run copies them, and returns when the outputs are there. Sessions of one process share
 * what is loaded: they are on one device, and only one thread at a time may open, run or close any of them.
 */
#ifndef TUNEFARM_CUDA_H_
#define TUNEFARM_CUDA_H_

#include "tunefarm_model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TunefarmCudaSession TunefarmCudaSession;

/* Allocates the memory of a model on the device with the number `device`, copies the weights, and loads the kernels.
 * Returns 0, or another number: then `*session` is null and tunefarm_last_error() says why. */
int tunefarm_cuda_open(const TunefarmModel *model, const void *weights, int device, TunefarmCudaSession **session);

/* Runs the model once. Returns 0, or another number: then tunefarm_last_error() says why. */
int tunefarm_cuda_run(TunefarmCudaSession *session, void *const *inputs, void *const *outputs);

/* Frees what the session owns. A null session is ignored. */
void tunefarm_cuda_close(TunefarmCudaSession *session);

/* What generated sources consist of. */

/* Device code with the least compute capability, whether that is the only one, and the least version of the driver. */
typedef struct {
  const unsigned char *image;
  int major, minor, is_exact, driver;
  void *loaded, *context;
  int users;
} TunefarmCudaModule;

/* Arguments are numbers of the function's tensors, and after those of its workspaces. */
typedef struct {
  const char *kernel;
  uint32_t grid[3], block[3], dynamic_shared_bytes;
  int32_t count;
  const int32_t *arguments;
  void *function;
} TunefarmCudaLaunch;

typedef struct {
  TunefarmCudaModule *module;
  int32_t tensors, workspaces, launches;
  const uint64_t *workspace_bytes;
  uint64_t *workspace;
  TunefarmCudaLaunch *launch;
  int users;
} TunefarmCudaFunction;

/* Values of `count` that load a function for a session, and give it up. */
enum { TUNEFARM_CUDA_LOAD = -1, TUNEFARM_CUDA_UNLOAD = -2 };

/* Launches the kernels of a function. `arguments` are tensors whose data is on the device. */
int32_t tunefarm_cuda_call(TunefarmCudaFunction *function, TunefarmCudaSession *session, const void *arguments,
                           int32_t count);

#ifdef __cplusplus
}
#endif
#endif
