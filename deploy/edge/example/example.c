/* Opens the release in a folder, runs it once on zeros, and prints a report.
 *
 *     example ROOT KEY_FILE          KEY_FILE: the 32 bytes of the channel's public key */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tunefarm_runner.h"

#define MAX_TENSORS 16

static void allocate(const TunefarmRunner *runner, TunefarmRunnerDirection direction, void **buffers) {
  for (int i = 0; i < tunefarm_runner_tensors(runner, direction); ++i) {
    TunefarmRunnerTensor tensor;
    if (tunefarm_runner_tensor(runner, direction, i, &tensor) != TUNEFARM_RUNNER_OK) exit(1);
    size_t bytes = ((size_t)tensor.bytes + 63) / 64 * 64 + 64;
    buffers[i] = aligned_alloc(64, bytes);
    if (buffers[i] == NULL) exit(1);
    memset(buffers[i], 0, bytes);
  }
}

int main(int count, char **words) {
  unsigned char key[32];
  FILE *file = count == 3 ? fopen(words[2], "rb") : NULL;
  if (file == NULL || fread(key, 1, sizeof key, file) != sizeof key) {
    fprintf(stderr, "usage: %s ROOT KEY_FILE\n", words[0]);
    return 2;
  }
  fclose(file);
  TunefarmRunnerKeys keys = {key, 1};
  TunefarmRunnerOptions options = {0};
  TunefarmRunner *runner;
  TunefarmRunnerCode code = tunefarm_runner_open(words[1], &keys, 0, &options, &runner);
  if (code != TUNEFARM_RUNNER_OK) {
    fprintf(stderr, "%s: %s\n", tunefarm_runner_code_name(code), tunefarm_runner_message());
    return 1;
  }
  void *inputs[MAX_TENSORS], *outputs[MAX_TENSORS];
  if (tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_INPUT) > MAX_TENSORS ||
      tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_OUTPUT) > MAX_TENSORS)
    return 1;
  allocate(runner, TUNEFARM_RUNNER_INPUT, inputs);
  allocate(runner, TUNEFARM_RUNNER_OUTPUT, outputs);
  code = tunefarm_runner_run(runner, inputs, outputs);
  char report[4096];
  if (code == TUNEFARM_RUNNER_OK && tunefarm_runner_report(runner, 0, report, sizeof report) > 0) puts(report);
  tunefarm_runner_close(runner);
  return code == TUNEFARM_RUNNER_OK ? 0 : 1;
}
