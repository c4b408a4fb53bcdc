/* Runs a model on the test vectors of its bundle, and compares what it computes with what they hold.
 *
 *     self_test BUNDLE [THREADS] [RUNS]
 *
 * Prints the largest error relative to what is allowed, and the time of a run; ends with 0 if all outputs are right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bundle.h"
#include "tunefarm_comparison.h"

#define MAX_ARGUMENTS 64

#ifdef BUNDLE_CUDA
#include "tunefarm_cuda.h"

typedef TunefarmCudaSession *Opened;
static int open_model(const TunefarmModel *model, const void *weights, Opened *opened) {
  return tunefarm_cuda_open(model, weights, 0, opened);
}
static int run_model(Opened *opened, void *const *inputs, void *const *outputs) {
  return tunefarm_cuda_run(*opened, inputs, outputs);
}
static void close_model(Opened *opened) { tunefarm_cuda_close(*opened); }
#else
typedef struct {
  const TunefarmModel *model;
  const void *weights;
  void *arena;
} Opened;
static int open_model(const TunefarmModel *model, const void *weights, Opened *opened) {
  opened->model = model, opened->weights = weights;
  opened->arena = aligned_alloc(64, ((size_t)model->arena_bytes + 63) / 64 * 64 + 64);
  return opened->arena == NULL ? -1 : 0;
}
static int run_model(Opened *opened, void *const *inputs, void *const *outputs) {
  return tunefarm_model_run(opened->model, opened->weights, opened->arena, inputs, outputs);
}
static void close_model(Opened *opened) { free(opened->arena); }
#endif

static void *aligned(uint64_t bytes) {
  void *memory = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64 + 64);
  if (memory == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(2);
  }
  return memory;
}

static void *contents(const char *folder, const char *name, uint64_t bytes) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "rb") : NULL;
  void *memory = aligned(bytes);
  if (file == NULL || fread(memory, 1, (size_t)bytes, file) != (size_t)bytes || fgetc(file) != EOF) {
    fprintf(stderr, "%s cannot be read, or has another size than %llu bytes\n", path, (unsigned long long)bytes);
    exit(2);
  }
  fclose(file);
  return memory;
}

static double now_s(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int count, char **words) {
  if (count < 2) {
    fprintf(stderr, "usage: %s BUNDLE [THREADS] [RUNS]\n", words[0]);
    return 2;
  }
  static const TunefarmModel *const models[] = {BUNDLE_VECTOR_MODELS};
  static const char *const folders[] = {BUNDLE_VECTOR_FOLDERS};
  int threads = count > 2 ? atoi(words[2]) : 1, runs = count > 3 ? atoi(words[3]) : 10;
  if (tunefarm_start_threads(threads) != 0) fprintf(stderr, "there are fewer threads than %d\n", threads);
  void *weights = contents(words[1], "weights.bin", BUNDLE_MODEL.weights_bytes);
  void *inputs[MAX_ARGUMENTS], *outputs[MAX_ARGUMENTS], *expected[MAX_ARGUMENTS];
  double worst = 0.0, best_s = INFINITY;
  for (int vector = 0; vector < BUNDLE_VECTORS; ++vector) {
    const TunefarmModel *model = models[vector];
    if (model->inputs > MAX_ARGUMENTS || model->outputs > MAX_ARGUMENTS) return 2;
    Opened opened;
    if (open_model(model, weights, &opened) != 0) {
      fprintf(stderr, "%s\n", tunefarm_last_error());
      return 1;
    }
    char name[256];
    for (int32_t i = 0; i < model->inputs; ++i) {
      snprintf(name, sizeof name, "%s/input%d.bin", folders[vector], (int)i);
      inputs[i] = model->input[i].tensor < 0 ? NULL : contents(words[1], name, model->tensor[model->input[i].tensor].bytes);
    }
    for (int32_t i = 0; i < model->outputs; ++i) {
      const TunefarmTensor *tensor = &model->tensor[model->output[i].tensor];
      snprintf(name, sizeof name, "%s/output%d.bin", folders[vector], (int)i);
      expected[i] = contents(words[1], name, tensor->bytes);
      outputs[i] = aligned(tensor->bytes);
    }
    for (int run = 0; run < runs; ++run) {
      double began_s = now_s();
      if (run_model(&opened, inputs, outputs) != 0) {
        fprintf(stderr, "%s\n", tunefarm_last_error());
        return 1;
      }
      double took_s = now_s() - began_s;
      if (took_s < best_s) best_s = took_s;
    }
    for (int32_t i = 0; i < model->outputs; ++i) {
      const TunefarmTensor *tensor = &model->tensor[model->output[i].tensor];
      double error = tunefarm_error_of(tensor, outputs[i], expected[i], BUNDLE_TOLERANCE);
      if (error > worst) worst = error;
      free(outputs[i]), free(expected[i]);
    }
    for (int32_t i = 0; i < model->inputs; ++i) free(inputs[i]);
    close_model(&opened);
  }
  free(weights);
  tunefarm_release_workspaces();
  printf("%d vectors, worst error %.3g of what is allowed, %.3f ms a run\n", BUNDLE_VECTORS, worst, best_s * 1e3);
  return worst <= 1.0 ? 0 : 1;
}
