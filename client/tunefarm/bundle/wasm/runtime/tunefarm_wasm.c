/* What model.wasm exports. It imports nothing: any engine runs it, with weights, arena and tensors in its own memory.
 *
 * Entries, inputs and outputs are numbered as in the manifest. Addresses are offsets in the exported memory, which an
 * allocation may enlarge. */
#include <stdlib.h>

#include "bundle.h"

#define EXPORT(name) __attribute__((export_name(#name), used))
#define ALIGNMENT 64

static const TunefarmModel *const models[] = {BUNDLE_MODELS};
#define ENTRIES ((int32_t)(sizeof models / sizeof models[0]))

static const TunefarmModel *model_of(int32_t entry) { return entry >= 0 && entry < ENTRIES ? models[entry] : NULL; }

EXPORT(tunefarm_abi_version) uint32_t abi_version(void) { return 1; }

EXPORT(tunefarm_entries) int32_t entries(void) { return ENTRIES; }

EXPORT(tunefarm_weights_bytes) uint32_t weights_bytes(void) { return (uint32_t)models[0]->weights_bytes; }

EXPORT(tunefarm_arena_bytes) uint32_t arena_bytes(int32_t entry) {
  const TunefarmModel *model = model_of(entry);
  return model == NULL ? 0 : (uint32_t)model->arena_bytes;
}

/* 0 for an input that no kernel reads. */
EXPORT(tunefarm_input_bytes) uint32_t input_bytes(int32_t entry, int32_t input) {
  const TunefarmModel *model = model_of(entry);
  if (model == NULL || input < 0 || input >= model->inputs || model->input[input].tensor < 0) return 0;
  return (uint32_t)model->tensor[model->input[input].tensor].bytes;
}

EXPORT(tunefarm_output_bytes) uint32_t output_bytes(int32_t entry, int32_t output) {
  const TunefarmModel *model = model_of(entry);
  if (model == NULL || output < 0 || output >= model->outputs) return 0;
  return (uint32_t)model->tensor[model->output[output].tensor].bytes;
}

/* Memory at a multiple of 64, or 0 if there is not enough. */
EXPORT(tunefarm_allocate) void *allocate(uint32_t bytes) {
  if (bytes > UINT32_MAX - 2 * ALIGNMENT) return NULL;
  return aligned_alloc(ALIGNMENT, bytes / ALIGNMENT * ALIGNMENT + ALIGNMENT);
}

EXPORT(tunefarm_free) void release(void *memory) { free(memory); }

/* Runs an entry. `inputs` and `outputs` are arrays of addresses, 32 bits each. Returns 0, or another number: then
 * tunefarm_error() is the address of the reason, a text that ends with a zero byte. */
EXPORT(tunefarm_run)
int32_t run(int32_t entry, const void *weights, void *arena, void *const *inputs, void *const *outputs) {
  const TunefarmModel *model = model_of(entry);
  if (model == NULL) {
    TVMFFIErrorSetRaisedFromCStr("IndexError", "there is no such entry");
    return -1;
  }
  return tunefarm_model_run(model, weights, arena, inputs, outputs);
}

EXPORT(tunefarm_error) const char *error(void) { return tunefarm_last_error(); }
