// The self-test of a release in a child process, whose crash is a failure of the release and not of the program.
#pragma once

#include "release_text.h"
#include "report_text.h"

namespace tunefarm {

// `lock` is the descriptor that holds the lock of the installation: a child that outlives it must not.
Code self_test_in_child(int folder, int lock, const ReleaseText &release, const TunefarmRunnerOptions &options,
                        InstallOutcome *outcome);

// Calls the health check of the options; 0 if there is none.
int health_of(const TunefarmRunnerOptions &options, const char *folder);

}  // namespace tunefarm
