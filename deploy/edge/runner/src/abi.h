/* What model.so exports, in C and C++. */
#ifndef TUNEFARM_RUNNER_ABI_H_
#define TUNEFARM_RUNNER_ABI_H_

#if __has_include("tunefarm_bundle.h")
#include "tunefarm_bundle.h"
#else
#include "tunefarm_model.h"

typedef struct {
  uint32_t abi_version;
  const TunefarmModel *model;
  int (*run)(const TunefarmModel *, const void *weights, void *arena, void *const *inputs, void *const *outputs);
  const char *(*last_error)(void);
  int (*start_threads)(int threads);
  void (*release_workspaces)(void);
  int32_t count;
  const TunefarmModel *const *models;
} TunefarmBundle;
#endif

#endif
