/* See tunefarm_model.h. */
#include "tunefarm_model.h"

#include <string.h>

#define ALIGNMENT 64

static int is_aligned(const void *memory) { return memory != NULL && (uintptr_t)memory % ALIGNMENT == 0; }

static int are_aligned(const TunefarmModel *model, const void *weights, const void *arena, void *const *inputs,
                       void *const *outputs) {
  int fine = (model->weights_bytes == 0 || is_aligned(weights)) && (model->arena_bytes == 0 || is_aligned(arena));
  for (int32_t i = 0; i < model->inputs; ++i) fine = fine && (model->input[i].tensor < 0 || is_aligned(inputs[i]));
  for (int32_t i = 0; i < model->outputs; ++i) fine = fine && is_aligned(outputs[i]);
  return fine;
}

int tunefarm_model_run(const TunefarmModel *model, const void *weights, void *arena, void *const *inputs,
                       void *const *outputs) {
  if (!are_aligned(model, weights, arena, inputs, outputs)) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "a tensor is missing, or does not begin at a multiple of 64 bytes");
    return -1;
  }
  for (int32_t c = 0; c < model->calls; ++c) {
    const TunefarmCall *call = &model->call[c];
    DLTensor tensors[TUNEFARM_MAX_ARGUMENTS], *arguments[TUNEFARM_MAX_ARGUMENTS];
    if (call->count > TUNEFARM_MAX_ARGUMENTS) {
      TVMFFIErrorSetRaisedFromCStr("ValueError", "a kernel has too many arguments");
      return -1;
    }
    for (int32_t i = 0; i < call->count; ++i) {
      const TunefarmTensor *tensor = &model->tensor[call->tensors[i]];
      unsigned char *data = tensor->place == TUNEFARM_INPUT     ? (unsigned char *)inputs[tensor->position]
                            : tensor->place == TUNEFARM_OUTPUT  ? (unsigned char *)outputs[tensor->position]
                            : tensor->place == TUNEFARM_WEIGHTS ? (unsigned char *)weights + tensor->position
                                                                : (unsigned char *)arena + tensor->position;
      DLTensor given = {data, {kDLCPU, 0}, tensor->dimensions, tensor->type, (int64_t *)tensor->shape, NULL, 0};
      tensors[i] = given;
      arguments[i] = &tensors[i];
    }
    if (call->kernel == NULL) {
      memcpy(tensors[1].data, tensors[0].data, (size_t)model->tensor[call->tensors[1]].bytes);
      continue;
    }
    int failed = tunefarm_call(call->kernel, arguments, call->count);
    if (failed != 0) return failed;
  }
  return 0;
}
