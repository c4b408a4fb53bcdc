// The numbers that the runner takes from manifest.json.
#pragma once

#include "release_text.h"

namespace tunefarm {

struct Manifest {
  int format = 0;
  double tolerance = 0.0;
};

// Reads the manifest, whose digest is verified first. A number that it lacks is 0.
Code read_manifest(int folder, const ReleaseText &release, Manifest *manifest);

}  // namespace tunefarm
