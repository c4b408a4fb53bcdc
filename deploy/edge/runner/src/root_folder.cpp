#include "root_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace tunefarm {
namespace {

// The sequence of a folder's name such as 7-cnn; 0 if it is not such a name.
uint64_t sequence_of(const char *name) {
  char *end = nullptr;
  if (*name < '1' || *name > '9') return 0;
  uint64_t sequence = strtoull(name, &end, 10);
  return *end == '-' && strchr(end, '/') == nullptr ? sequence : 0;
}

// The next folder below `above` in descending order of sequences; 0 if there is none.
uint64_t next_below(int releases, uint64_t above, char *name, size_t size) {
  uint64_t best = 0;
  int copy = openat(releases, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = copy < 0 ? nullptr : fdopendir(copy);
  if (entries == nullptr) {
    if (copy >= 0) close(copy);
    return 0;
  }
  for (struct dirent *entry = readdir(entries); entry != nullptr; entry = readdir(entries)) {
    uint64_t sequence = sequence_of(entry->d_name);
    if (sequence > best && sequence < above) {
      best = sequence;
      snprintf(name, size, "%s", entry->d_name);
    }
  }
  closedir(entries);
  return best;
}

}  // namespace

Code RootFolder::open(const char *path, const TunefarmRunnerOptions &options) {
  root.reset(open_folder(AT_FDCWD, path));
  if (!root.is_open()) return fail_system("cannot open", path);
  const char *state_path = options.state_folder == nullptr ? path : options.state_folder;
  state.reset(open_folder(AT_FDCWD, state_path));
  return state.is_open() ? TUNEFARM_RUNNER_OK : fail_system("cannot open", state_path);
}

Code RootFolder::current(char *path, size_t size, uint64_t *sequence) const {
  *sequence = 0;
  ssize_t length = readlinkat(root.get(), CURRENT, path, size - 1);
  if (length < 0 && errno == ENOENT) return TUNEFARM_RUNNER_OK;
  if (length < 0) return fail_system("cannot read", CURRENT);
  path[length] = 0;
  bool is_below = strncmp(path, "releases/", 9) == 0;
  *sequence = is_below ? sequence_of(path + 9) : 0;
  if (*sequence == 0) return fail(TUNEFARM_RUNNER_TAMPERED, "current does not name an installed release");
  return TUNEFARM_RUNNER_OK;
}

bool RootFolder::find(uint64_t sequence, char *path, size_t size) const {
  char name[256];
  Descriptor releases(open_folder(root.get(), RELEASES));
  if (!releases.is_open() || sequence == 0) return false;
  if (next_below(releases.get(), sequence + 1, name, sizeof name) != sequence) return false;
  return snprintf(path, size, "%s/%s", RELEASES, name) < static_cast<int>(size);
}

Code RootFolder::switch_to(const char *path) const {
  int failed = remove_file(root.get(), "current.new");
  if (failed == 0) failed = link_to(root.get(), path, "current.new");
  if (failed == 0) failed = rename_in(root.get(), "current.new", CURRENT);
  if (failed == 0) failed = sync_folder(root.get(), ".");
  return failed == 0 ? TUNEFARM_RUNNER_OK : fail_system("cannot switch to", path);
}

void RootFolder::prune(int keep, uint64_t current, uint64_t retained) const {
  char name[256];
  Descriptor releases(open_folder(root.get(), RELEASES));
  if (!releases.is_open()) return;
  int kept = 0;
  uint64_t sequence = UINT64_MAX;
  while ((sequence = next_below(releases.get(), sequence, name, sizeof name)) != 0) {
    bool is_needed = sequence == current || sequence == retained;
    if (is_needed || kept < keep - 2)
      kept += is_needed ? 0 : 1;
    else
      remove_tree(releases.get(), name);
  }
}

}  // namespace tunefarm
