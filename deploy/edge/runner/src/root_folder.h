// The folder into which releases are installed: releases/SEQUENCE-NAME/, and the link `current` to one of them.
#pragma once

#include <stdint.h>

#include "device_state.h"
#include "files.h"

namespace tunefarm {

constexpr const char *RELEASES = "releases";
constexpr const char *CURRENT = "current";

struct RootFolder {
  Descriptor root, state;

  Code open(const char *path, const TunefarmRunnerOptions &options);

  // Reads the link: a path such as releases/7-cnn, and its sequence; 0 if nothing is installed.
  Code current(char *path, size_t size, uint64_t *sequence) const;

  // The installed release with a sequence; false if there is none.
  bool find(uint64_t sequence, char *path, size_t size) const;

  // Points the link to a folder. A power cut leaves the old link or the new one.
  Code switch_to(const char *path) const;

  // Removes all but the newest releases, and those with the two sequences.
  void prune(int keep, uint64_t current, uint64_t retained) const;
};

}  // namespace tunefarm
