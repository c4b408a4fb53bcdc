/* Counts allocations of the whole process while a release is polled and run a thousand times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tunefarm_runner.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
static long count;
void *malloc(size_t n) { return ++count, __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return ++count, __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return ++count, __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return ++count, __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { return ++count, (*p = __libc_memalign(a, n)) == NULL; }

int main(int words, char **word) {
  unsigned char key[32];
  for (int i = 0; i < 32 && words > 3; ++i) {
    char byte[3] = {word[2][i * 2], word[2][i * 2 + 1], 0};
    key[i] = (unsigned char)strtoul(byte, NULL, 16);
  }
  TunefarmRunnerKeys keys = {key, 1};
  TunefarmRunnerOptions options = {0};
  TunefarmRunner *runner;
  long now = atol(word[3]);
  if (tunefarm_runner_open(word[1], &keys, now, &options, &runner) != TUNEFARM_RUNNER_OK) return 1;
  void *inputs[8], *outputs[8];
  TunefarmRunnerTensor tensor;
  for (int i = 0; i < tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_INPUT); ++i) {
    tunefarm_runner_tensor(runner, TUNEFARM_RUNNER_INPUT, i, &tensor);
    inputs[i] = aligned_alloc(64, tensor.bytes + 64);
    memset(inputs[i], 0, tensor.bytes);
  }
  for (int i = 0; i < tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_OUTPUT); ++i) {
    tunefarm_runner_tensor(runner, TUNEFARM_RUNNER_OUTPUT, i, &tensor);
    outputs[i] = aligned_alloc(64, tensor.bytes + 64);
  }
  long before = count;
  char report[4096];
  for (int i = 0; i < 1000; ++i) {
    if (tunefarm_runner_run(runner, inputs, outputs) != TUNEFARM_RUNNER_OK) return 2;
    if (tunefarm_runner_poll(runner, now + i * 10) != TUNEFARM_RUNNER_OK) return 3;
  }
  if (tunefarm_runner_report(runner, now, report, sizeof report) <= 0) return 4;
  long after = count;
  printf("%ld before, %ld more\n", before, after - before);
  tunefarm_runner_close(runner);
  return before == 0;
}
