/* Runs a whole model in a program without TVM: its kernels in the order of a plan that was made when it was compiled.
 *
 *     extern const TunefarmModel my_model;
 *     static _Alignas(64) unsigned char arena[...];      at least my_model.arena_bytes
 *     void *inputs[] = {image}, *outputs[] = {scores};
 *     if (tunefarm_model_run(&my_model, weights, arena, inputs, outputs) != 0) puts(tunefarm_last_error());
 *
 * A run allocates no memory of its own. Models are constant: several threads may run one at a time, each with an arena
 * of its own; the loops of all but one then run on one thread.
 */
#ifndef TUNEFARM_MODEL_H_
#define TUNEFARM_MODEL_H_

#include "tunefarm_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  TUNEFARM_INPUT = 0,
  TUNEFARM_OUTPUT = 1,
  TUNEFARM_WEIGHTS = 2,
  TUNEFARM_ARENA = 3
} TunefarmPlace;

/* A contiguous tensor. `position` is an offset in bytes in the weights or the arena, or the number of an input or
 * output. */
typedef struct {
  TunefarmPlace place;
  DLDataType type;
  int32_t dimensions;
  const int64_t *shape;
  uint64_t position;
  uint64_t bytes;
} TunefarmTensor;

/* A kernel with the numbers of its tensors, outputs last; a null kernel copies its first tensor to its second. */
typedef struct {
  TunefarmKernel kernel;
  int32_t count;
  const int32_t *tensors;
} TunefarmCall;

/* An input or output: its name and the number of its tensor, or -1 for an input that no kernel reads. */
typedef struct {
  const char *name;
  int32_t tensor;
} TunefarmArgument;

/* `name` is that of the entry in the manifest. */
typedef struct {
  const char *name;
  uint64_t weights_bytes, arena_bytes;
  int32_t inputs, outputs, calls;
  const TunefarmArgument *input, *output;
  const TunefarmTensor *tensor;
  const TunefarmCall *call;
} TunefarmModel;

/* Runs a model. Weights, arena, inputs and outputs begin at multiples of 64 bytes; outputs overlap with nothing.
 * Returns 0, or another number: then tunefarm_last_error() says why. */
int tunefarm_model_run(const TunefarmModel *model, const void *weights, void *arena, void *const *inputs,
                       void *const *outputs);

#ifdef __cplusplus
}
#endif
#endif
