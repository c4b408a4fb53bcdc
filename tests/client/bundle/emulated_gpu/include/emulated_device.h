/* CUDA C++ for g++: the words that mark functions and memory, indices, barriers and warp operations.
 *
 * Each thread of a block is a fiber of block_of_threads.cpp. What waits for other threads gives the line of its call, so
 * that threads which wait in different places are an error, and the error names the places. */
#ifndef EMULATED_DEVICE_H_
#define EMULATED_DEVICE_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <sys/types.h>
#include <utility>

#include "device_functions.h"
#include "emulated_kernel.h"
#include "vector_types.h"

#define __CUDA_ARCH__ 800
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
/* TVM writes it after __shared__, where C++ allows attributes of g++ only. */
#define alignas(bytes) __attribute__((aligned(bytes)))
/* Other threads write what a pointer names between two lines of a thread. */
#define __restrict__
/* One block runs at a time. The runtime fills this section before each. */
#define __shared__ static __attribute__((section("emulated_shared")))

typedef uint3 EmulatedIndex;
extern EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

namespace emulated {

/* A seat for each lane of a warp: what it gave, if it took part. */
struct Gathered {
  uint64_t value[32];
  unsigned lanes;
};

void wait_for_block(unsigned line);
const Gathered &gather(unsigned mask, uint64_t value, unsigned line);
unsigned active_lanes(unsigned line);
unsigned lane();
unsigned thread_number();
void *dynamic_shared();

/* asynchronous_copies.cpp. A copy from null fills with zeros. */
void forget_copies(unsigned threads);
void copy_later(void *to, const void *from, unsigned bytes);
void commit_copies();
void wait_for_copies(unsigned pending_groups);

/* The closure is the kernel with its arguments. `most_threads` is 0 where the kernel has no launch bounds. */
const char *run_blocks(const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared_bytes, unsigned most_threads,
                       void (*thread)(const void *closure), const void *closure);

template <typename T>
inline uint64_t packed(T value) {
  static_assert(sizeof(T) <= 8, "a warp operation has values of at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
inline T from_lane(unsigned source, unsigned mask, T value, unsigned line) {
  const Gathered &all = gather(mask, packed(value), line);
  T found;
  /* What a lane that took no part holds is undefined. */
  if (all.lanes >> source & 1) memcpy(&found, &all.value[source], sizeof found);
  else emulated_poison(&found, sizeof found, EMULATED_UNWRITTEN);
  return found;
}

template <typename... P, size_t... I>
inline const char *run(void (*kernel)(P...), unsigned most_threads, const unsigned grid[3], const unsigned block[3],
                       unsigned dynamic_shared_bytes, void **parameters, std::index_sequence<I...>) {
  (void)parameters;
  auto call = [=] { kernel(*static_cast<typename std::remove_reference<P>::type *>(parameters[I])...); };
  auto thread = [](const void *closure) { (*static_cast<const decltype(call) *>(closure))(); };
  return run_blocks(grid, block, dynamic_shared_bytes, most_threads, thread, &call);
}

template <typename... P>
constexpr int parameters_of(void (*)(P...)) {
  return sizeof...(P);
}

template <typename... P>
inline const char *run(void (*kernel)(P...), unsigned most_threads, const unsigned grid[3], const unsigned block[3],
                       unsigned dynamic_shared_bytes, void **parameters) {
  return run(kernel, most_threads, grid, block, dynamic_shared_bytes, parameters, std::index_sequence_for<P...>());
}

}  // namespace emulated

#define EMULATED_EXPORT(kernel, most_threads)                                                                       \
  extern "C" __attribute__((visibility("default"))) const EmulatedKernel emulated_##kernel;                         \
  const EmulatedKernel emulated_##kernel = {                                                                        \
      emulated::parameters_of(kernel),                                                                              \
      [](const unsigned grid[3], const unsigned block[3], unsigned shared, void **parameters) {                     \
        return emulated::run(kernel, most_threads, grid, block, shared, parameters);                                \
      }};

inline void __syncthreads(unsigned line = __builtin_LINE()) { emulated::wait_for_block(line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, unsigned line = __builtin_LINE()) { emulated::gather(mask, 0, line); }
inline unsigned __cvta_generic_to_shared(const void *) { return 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned __activemask(unsigned line = __builtin_LINE()) { return emulated::active_lanes(line); }

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, unsigned line = __builtin_LINE()) {
  unsigned own = emulated::lane(), in_width = (unsigned)width - 1;
  return emulated::from_lane((own & ~in_width) | ((unsigned)source & in_width), mask, value, line);
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, unsigned line = __builtin_LINE()) {
  unsigned own = emulated::lane(), in_width = (unsigned)width - 1;
  return emulated::from_lane((own & in_width) < distance ? own : own - distance, mask, value, line);
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, unsigned line = __builtin_LINE()) {
  unsigned own = emulated::lane(), in_width = (unsigned)width - 1;
  return emulated::from_lane((own & in_width) + distance > in_width ? own : own + distance, mask, value, line);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, unsigned line = __builtin_LINE()) {
  unsigned own = emulated::lane(), other = own ^ (unsigned)lanes;
  return emulated::from_lane(other > (own | ((unsigned)width - 1)) ? own : other, mask, value, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE()) {
  const emulated::Gathered &all = emulated::gather(mask, predicate != 0, line);
  unsigned lanes = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (all.lanes >> i & 1) lanes |= (unsigned)all.value[i] << i;
  return lanes;
}
inline int __any_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE()) {
  return __ballot_sync(mask, !predicate, line) == 0;
}
#endif
