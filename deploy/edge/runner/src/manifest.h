// The only number that the runner takes from manifest.json.
#pragma once

#include "release_text.h"

namespace tunefarm {

// Reads `tolerance` of the manifest, whose digest is verified first.
Code read_tolerance(int folder, const ReleaseText &release, double *tolerance);

}  // namespace tunefarm
