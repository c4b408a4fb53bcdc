/* A model of one kernel in the form of a bundle's library: doubles its input and adds a weight. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "bundle_of_tests.h"

#ifdef HALF
#define BITS 16
#else
#define BITS 32
#endif
static const int64_t shape[] = {4};
static const TunefarmTensor tensors[] = {
    {TUNEFARM_INPUT, {kDLFloat, BITS, 1}, 1, shape, 0, BITS / 2},
    {TUNEFARM_OUTPUT, {kDLFloat, BITS, 1}, 1, shape, 0, BITS / 2},
    {TUNEFARM_WEIGHTS, {kDLFloat, 32, 1}, 1, shape, 0, 16},
};
static int32_t kernel(void *handle, void *arguments, int32_t count, void *result) {
  const TVMFFIAny *given = arguments;
  const float *input = ((DLTensor *)given[0].v_ptr)->data, *weight = ((DLTensor *)given[1].v_ptr)->data;
  float *output = ((DLTensor *)given[2].v_ptr)->data;
  (void)handle, (void)count, (void)result;
#ifdef HANGS
  // Tests see by this pipe that the model runs, and that its process has ended.
  int end = open(HANGS, O_WRONLY);
  while (end >= 0) pause();
#endif
#ifdef CRASHES
  abort();
#endif
#ifdef HALF
  // Of the bits of a number between 1 and 2, the last is worth 1/1024.
  for (int i = 0; i < 4; ++i) ((uint16_t *)output)[i] = (uint16_t)(((const uint16_t *)input)[i] + BIAS);
  (void)weight;
#else
  for (int i = 0; i < 4; ++i) output[i] = 2 * input[i] + weight[i] + BIAS;
#endif
  return 0;
}
#ifdef LOADED
// Tests see by this file that the library was loaded.
__attribute__((constructor)) static void loaded(void) { close(open(LOADED, O_CREAT | O_WRONLY, 0600)); }
#endif
static const int32_t order[] = {0, 2, 1};
static const TunefarmCall calls[] = {{kernel, 3, order}};
static const TunefarmArgument input[] = {{"x", 0}}, output[] = {{"y", 1}};
static const TunefarmModel model = {"tiny", 16, 64, 1, 1, 1, input, output, tensors, calls};
#ifdef SEVERAL
static int32_t negate(void *handle, void *arguments, int32_t count, void *result) {
  const TVMFFIAny *given = arguments;
  const float *input = ((DLTensor *)given[0].v_ptr)->data;
  float *output = ((DLTensor *)given[1].v_ptr)->data;
  (void)handle, (void)count, (void)result;
  for (int i = 0; i < 4; ++i) output[i] = -input[i];
  return 0;
}
static const int32_t order_of_negate[] = {0, 1};
static const TunefarmCall calls_of_negate[] = {{negate, 2, order_of_negate}};
static const TunefarmModel negated = {"negate", 16, 128, 1, 1, 1, input, output, tensors, calls_of_negate};
static const TunefarmModel *const models[] = {&model, &negated};
#else
static const TunefarmModel *const models[] = {&model};
#endif
static const TunefarmBundle bundle = {
    ABI, &model, tunefarm_model_run, tunefarm_last_error, tunefarm_start_threads, tunefarm_release_workspaces,
    sizeof models / sizeof models[0], models};
__attribute__((visibility("default"))) const TunefarmBundle *tunefarm_bundle(void) { return &bundle; }
