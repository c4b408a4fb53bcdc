// Reads texts of releases, each after its length in 4 bytes, and prints 1 for each that is well formed, else 0.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "release_text.h"

int main() {
  static tunefarm::ReleaseText release;
  uint32_t size = 0;
  while (fread(&size, 1, sizeof size, stdin) == sizeof size) {
    char *text = static_cast<char *>(malloc(size == 0 ? 1 : size));  // of its size, so that ASan sees each byte too many
    if (fread(text, 1, size, stdin) != size) return 2;
    putchar(tunefarm::parse_release(text, size, &release) == TUNEFARM_RUNNER_OK ? '1' : '0');
    free(text);
  }
  return 0;
}
