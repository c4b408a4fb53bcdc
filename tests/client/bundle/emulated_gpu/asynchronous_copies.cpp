/* Copies to shared memory that a thread starts and waits for later: cp.async and its groups.
 *
 * A GPU copies at any time between start and wait. Here the destination holds NaN meanwhile, and a copy reads its source at
 * the last moment, so that what does not wait for it computes wrong numbers. */
#include <vector>

#include "emulated_device.h"

namespace {

struct Copy {
  void *to;
  const void *from;
  unsigned bytes, group;
};
struct Queue {
  std::vector<Copy> copies;
  unsigned groups = 0; /* that are committed */
};

std::vector<Queue> queues;

void finish(const Copy &copy) {
  if (copy.from != nullptr) memcpy(copy.to, copy.from, copy.bytes);
  else memset(copy.to, 0, copy.bytes);
}

}  // namespace

namespace emulated {

void forget_copies(unsigned threads) { queues.assign(threads, Queue()); }

void copy_later(void *to, const void *from, unsigned bytes) {
  Queue &own = queues[thread_number()];
  emulated_poison(to, bytes, EMULATED_UNWRITTEN);
  own.copies.push_back({to, from, bytes, own.groups});
}

void commit_copies() { ++queues[thread_number()].groups; }

void wait_for_copies(unsigned pending_groups) {
  Queue &own = queues[thread_number()];
  std::vector<Copy> rest;
  for (const Copy &copy : own.copies)
    if (copy.group + pending_groups < own.groups) finish(copy);
    else rest.push_back(copy);
  own.copies.swap(rest);
}

}  // namespace emulated
