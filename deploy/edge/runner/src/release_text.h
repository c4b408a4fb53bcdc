// The text of a release for small runners.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "files.h"

namespace tunefarm {

constexpr const char *MANIFEST = "manifest.json", *LIBRARY = "model.so", *WEIGHTS = "weights.bin";
constexpr size_t MAX_TEXT_BYTES = 65536;
constexpr size_t MAX_FILES = 900;

// A part of the text, without a 0 at its end.
struct Slice {
  const char *begin = nullptr;
  size_t size = 0;
  bool is(const char *text) const;
};

struct ReleaseFile {
  char path[201];
  uint64_t bytes;
  unsigned char digest[DIGEST_BYTES];
};

// The document of a channel, with the files of the first variant that this processor runs.
struct ReleaseText {
  char channel[101];
  char name[101];
  uint64_t sequence = 0;
  uint64_t revoked_below = 0;
  int64_t issued = 0, expires = 0;
  bool has_variant = false;
  size_t files = 0;
  ReleaseFile file[MAX_FILES];

  const ReleaseFile *find(const char *path) const;
};

// Reads a text. All of it must be well formed, the variants of other processors too.
Code parse_release(const char *text, size_t size, ReleaseText *release);

}  // namespace tunefarm
