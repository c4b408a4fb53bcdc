// The processor that this program runs on.
#pragma once

#include <stddef.h>

namespace tunefarm {

#if defined(__aarch64__)
constexpr const char *ARCHITECTURE = "aarch64";
#elif defined(__arm__)
constexpr const char *ARCHITECTURE = "armv7";
#elif defined(__riscv)
constexpr const char *ARCHITECTURE = "riscv64";
#elif defined(__x86_64__)
constexpr const char *ARCHITECTURE = "x86_64";
#else
#error "Bundles are built for aarch64, armv7, riscv64 and x86_64."
#endif

bool has_cpu_feature(const char *name, size_t size);

}  // namespace tunefarm
