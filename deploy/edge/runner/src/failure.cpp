#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace tunefarm {
namespace {
thread_local char message[400];

constexpr const char *NAMES[] = {
    "ok",          "tampered",    "expired",     "downgraded",       "wrong_target",        "revoked",
    "no_space",    "clock_rolled_back", "unreachable", "interrupted", "load_failed", "self_test_failed",
    "health_check_failed", "crashed", "newer",
};
}  // namespace

Code fail(Code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return code;
}

Code fail_system(const char *what, const char *path) {
  int error = errno;
  Code code = error == ENOSPC || error == EDQUOT                       ? TUNEFARM_RUNNER_NO_SPACE
              : error == ENOENT || error == ENOTDIR                    ? TUNEFARM_RUNNER_UNREACHABLE
              : error == ELOOP                                         ? TUNEFARM_RUNNER_TAMPERED
                                                                       : TUNEFARM_RUNNER_INTERRUPTED;
  return fail(code, "%s %s: %s", what, path, strerror(error));
}

}  // namespace tunefarm

extern "C" const char *tunefarm_runner_message(void) { return tunefarm::message; }

extern "C" const char *tunefarm_runner_code_name(TunefarmRunnerCode code) {
  size_t count = sizeof tunefarm::NAMES / sizeof *tunefarm::NAMES;
  return static_cast<size_t>(code) < count ? tunefarm::NAMES[code] : "unknown";
}
