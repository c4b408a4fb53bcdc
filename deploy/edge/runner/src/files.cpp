#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TUNEFARM_RUNNER_FAULTS
#include "faults.h"
#define OPERATION(file) \
  if (tunefarm::faults::operation(file) != 0) return -1
#define UNSYNCED(file) tunefarm::faults::unsynced(file)
#define SYNCED(file) tunefarm::faults::synced(file)
#else
#define OPERATION(file)
#define UNSYNCED(file)
#define SYNCED(file)
#endif

namespace tunefarm {

void Descriptor::reset(int number) {
  if (number_ >= 0) close(number_);
  number_ = number;
}

int Descriptor::release() {
  int number = number_;
  number_ = -1;
  return number;
}

Memory::~Memory() { free(data_); }

bool Memory::allocate(size_t bytes, size_t alignment) {
  void *memory = nullptr;
  if (bytes > SIZE_MAX / 2 || posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) return false;
  free(data_);
  data_ = static_cast<unsigned char *>(memory);
  return true;
}

int open_folder(int parent, const char *path) { return openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

int open_plain(int folder, const char *path) {
  // O_NONBLOCK: a pipe in the place of a file must not stop the device.
  Descriptor file(openat(folder, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts;
  if (!file.is_open() || fstat(file.get(), &facts) != 0) return -1;
  if (!S_ISREG(facts.st_mode)) {
    errno = ELOOP;
    return -1;
  }
  return file.release();
}

ssize_t read_small(int folder, const char *path, void *buffer, size_t size) {
  Descriptor file(open_plain(folder, path));
  if (!file.is_open()) return -1;
  size_t found = 0;
  char one;
  while (found < size) {
    ssize_t got = read(file.get(), static_cast<char *>(buffer) + found, size - found);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) return static_cast<ssize_t>(found);
    found += static_cast<size_t>(got);
  }
  ssize_t more = read(file.get(), &one, 1);
  if (more > 0) errno = EFBIG;
  return more == 0 ? static_cast<ssize_t>(found) : -1;
}

int make_folder(int parent, const char *path) {
  OPERATION(-1);
  return mkdirat(parent, path, 0755) == 0 || errno == EEXIST ? 0 : -1;
}

namespace {

// Does something with each folder between `folder` and the file `path` below it, the outermost first.
int each_parent(int folder, const char *path, int (*apply)(int, const char *)) {
  char part[MAX_PATH_BYTES];
  for (const char *slash = strchr(path, '/'); slash != nullptr; slash = strchr(slash + 1, '/')) {
    size_t length = static_cast<size_t>(slash - path);
    if (length >= sizeof part) return -1;
    memcpy(part, path, length);
    part[length] = 0;
    if (apply(folder, part) != 0) return -1;
  }
  return 0;
}

}  // namespace

int make_parents(int folder, const char *path) { return each_parent(folder, path, make_folder); }

int sync_parents(int folder, const char *path) {
  return each_parent(folder, path, sync_folder) != 0 ? -1 : sync_folder(folder, ".");
}

int create_file(int folder, const char *path) {
  OPERATION(-1);
  int file = openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  UNSYNCED(file);
  return file;
}

int write_all(int file, const void *data, size_t bytes) {
  OPERATION(file);
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

int sync_file(int file) {
  OPERATION(file);
  int result = fsync(file);
  SYNCED(file);
  return result;
}

int sync_folder(int folder, const char *path) {
  OPERATION(-1);
  Descriptor opened(open_folder(folder, path));
  return opened.is_open() ? fsync(opened.get()) : -1;
}

int rename_in(int folder, const char *from, const char *to) {
  OPERATION(-1);
  return renameat(folder, from, folder, to);
}

int link_to(int folder, const char *target, const char *path) {
  OPERATION(-1);
  return symlinkat(target, folder, path);
}

int remove_file(int folder, const char *path) {
  OPERATION(-1);
  return unlinkat(folder, path, 0) == 0 || errno == ENOENT ? 0 : -1;
}

int remove_tree(int parent, const char *name) {
  OPERATION(-1);
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return 0;
  int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *entries = folder < 0 ? nullptr : fdopendir(folder);
  if (entries == nullptr) {
    if (folder >= 0) close(folder);
    return -1;
  }
  int result = 0;
  for (struct dirent *entry = readdir(entries); entry != nullptr && result == 0; entry = readdir(entries))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      result = remove_tree(dirfd(entries), entry->d_name);
  closedir(entries);
  return result != 0 ? result : unlinkat(parent, name, AT_REMOVEDIR);
}

int replace_file(int folder, const char *name, const void *data, size_t bytes) {
  char temporary[MAX_PATH_BYTES];
  if (snprintf(temporary, sizeof temporary, "%s.new", name) >= static_cast<int>(sizeof temporary)) return -1;
  if (remove_file(folder, temporary) != 0) return -1;
  Descriptor file(create_file(folder, temporary));
  if (!file.is_open() || write_all(file.get(), data, bytes) != 0 || sync_file(file.get()) != 0) return -1;
  return rename_in(folder, temporary, name) != 0 ? -1 : sync_folder(folder, ".");
}

}  // namespace tunefarm
