// What model.so exports.
#pragma once

#include "abi.h"

namespace tunefarm {
constexpr uint32_t RUNTIME_ABI = 1;
using BundleFunction = const TunefarmBundle *(*)();
}  // namespace tunefarm
