/* The interface of a bundle's shared library, model.so. It exports one symbol, tunefarm_bundle:
 *
 *     void *library = dlopen("./model.so", RTLD_NOW | RTLD_LOCAL);
 *     const TunefarmBundle *(*get)(void) = (const TunefarmBundle *(*)(void))dlsym(library, "tunefarm_bundle");
 *     const TunefarmBundle *bundle = get();
 *     if (bundle->abi_version != TUNEFARM_BUNDLE_ABI) return -1;
 *     bundle->start_threads(4);
 *     if (bundle->run(bundle->model, weights, arena, inputs, outputs) != 0) puts(bundle->last_error());
 *
 * Never unload a library after start_threads: its threads run until the process ends.
 */
#ifndef TUNEFARM_BUNDLE_H_
#define TUNEFARM_BUNDLE_H_

#include "tunefarm_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUNEFARM_BUNDLE_ABI 1

/* Read no other field if `abi_version` is not TUNEFARM_BUNDLE_ABI. The functions are those of tunefarm_model.h and
 * tunefarm_runtime.h. */
typedef struct {
  uint32_t abi_version;
  const TunefarmModel *model;
  int (*run)(const TunefarmModel *model, const void *weights, void *arena, void *const *inputs, void *const *outputs);
  const char *(*last_error)(void);
  int (*start_threads)(int threads);
  void (*release_workspaces)(void);
  /* All entries, `model` first. Only bundles whose manifest has the format 3 or a later one have these fields. */
  int32_t count;
  const TunefarmModel *const *models;
} TunefarmBundle;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const TunefarmBundle *tunefarm_bundle(void);

#ifdef __cplusplus
}
#endif
#endif
