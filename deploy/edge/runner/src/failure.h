// Failures: a code, and a message that the thread keeps.
#pragma once

#include "tunefarm_runner.h"

namespace tunefarm {

using Code = TunefarmRunnerCode;

__attribute__((format(printf, 2, 3))) Code fail(Code code, const char *format, ...);

// The code of errno, with a message.
Code fail_system(const char *what, const char *path);

}  // namespace tunefarm
