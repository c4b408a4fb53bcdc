// Opens a release and runs its model once on one thread: ROOT INPUT OUTPUT KEY NOW. Like its opponents it reads the input
// from a file, writes the output to one, and ends without tidying up.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tunefarm_runner.h"

namespace {

alignas(64) float image[1 * 3 * 64 * 64];
alignas(64) float scores[10];

// Stops with the exit status, which says which step failed.
void require(bool succeeded, int step) {
  if (!succeeded) _exit(step);
}

}  // namespace

int main(int count, char **words) {
  require(count == 6, 2);
  FILE *input = fopen(words[2], "rb");
  require(input != nullptr && fread(image, sizeof image, 1, input) == 1, 3);
  unsigned char key[32];
  for (int i = 0; i < 32; ++i) {
    char byte[3] = {words[4][i * 2], words[4][i * 2 + 1], 0};
    key[i] = static_cast<unsigned char>(strtoul(byte, nullptr, 16));
  }
  TunefarmRunnerKeys keys = {key, 1};
  TunefarmRunnerOptions options = {};
  options.skip_warm_up = 1;
  TunefarmRunner *runner = nullptr;
  require(tunefarm_runner_open(words[1], &keys, atoll(words[5]), &options, &runner) == TUNEFARM_RUNNER_OK, 4);
  void *inputs[] = {image}, *outputs[] = {scores};
  require(tunefarm_runner_run(runner, inputs, outputs) == TUNEFARM_RUNNER_OK, 5);
  FILE *output = fopen(words[3], "wb");
  require(output != nullptr && fwrite(scores, sizeof scores, 1, output) == 1, 6);
  require(fflush(output) == 0, 7);
  _exit(0);
}
