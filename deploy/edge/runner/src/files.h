// Files of a device. All that changes files goes through this header, so that tests can fail or end at each operation.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "failure.h"

namespace tunefarm {

// A file descriptor, closed at its end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  void reset(int number = -1);
  int release();
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// Memory of malloc, freed at its end.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  bool allocate(size_t bytes, size_t alignment = 16);
  unsigned char *get() const { return data_; }
  char *text() const { return reinterpret_cast<char *>(data_); }

 private:
  unsigned char *data_ = nullptr;
};

constexpr size_t MAX_PATH_BYTES = 1024;
constexpr size_t DIGEST_BYTES = 32;

int open_folder(int parent, const char *path);

// A plain file below a folder; symbolic links are not followed, and other kinds not opened.
int open_plain(int folder, const char *path);

// Reads at most `size` bytes of a file; -1 if it cannot be read or is larger.
ssize_t read_small(int folder, const char *path, void *buffer, size_t size);

// What changes files. Each returns 0, or -1 with errno.
int make_folder(int parent, const char *path);
int make_parents(int folder, const char *path);
int sync_parents(int folder, const char *path);
int create_file(int folder, const char *path);
int write_all(int file, const void *data, size_t bytes);
int sync_file(int file);
int sync_folder(int folder, const char *path);
int rename_in(int folder, const char *from, const char *to);
int link_to(int folder, const char *target, const char *path);
int remove_file(int folder, const char *path);

// Removes a folder with all below it, without following links.
int remove_tree(int parent, const char *name);

// Replaces a file so that after a power cut it has either content.
int replace_file(int folder, const char *name, const void *data, size_t bytes);

}  // namespace tunefarm
