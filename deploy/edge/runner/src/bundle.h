// What model.so exports.
#pragma once

#include "abi.h"

namespace tunefarm {
constexpr uint32_t RUNTIME_ABI = 1;
// Bundles whose manifest has this format or a later one have a table of entries.
constexpr int TABLE_FORMAT = 3;
using BundleFunction = const TunefarmBundle *(*)();
}  // namespace tunefarm
