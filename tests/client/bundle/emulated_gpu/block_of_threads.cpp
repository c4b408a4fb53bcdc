/* Runs the blocks of a launch one after the other, and the threads of a block as fibers of one thread of the host.
 *
 * A fiber runs until it ends, or waits for others: at a barrier of the block, or in an operation of its warp. When all wait,
 * what is complete goes on. If nothing is complete, some thread never reaches what others wait for, and the launch fails.
 * Every second block runs its threads in descending order, since a GPU keeps none: what relies on the order is wrong in one of
 * the two. So is what relies on the lockstep of a warp, which GPUs do not keep since compute capability 7.0.
 *
 * The compiler is asked to check the alignment of each access and the bounds of arrays whose size it knows. Its checks call
 * functions that are here, as do signals of the processor for bad addresses. */
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <sys/mman.h>
#include <ucontext.h>

#include "emulated_device.h"

EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;

/* What the kernels declare as shared; the linker gives the ends of the section, if there is one. */
extern char shared_begin[] __asm__("__start_emulated_shared") __attribute__((weak, visibility("hidden")));
extern char shared_end[] __asm__("__stop_emulated_shared") __attribute__((weak, visibility("hidden")));

namespace {

enum { MAX_THREADS = 1024, WARP = 32, STACK_BYTES = 256 * 1024, GUARD_PAGE_BYTES = 4096, SIGNAL_STACK_BYTES = 64 * 1024 };
const unsigned MAX_GRID[3] = {0x7fffffff, 65535, 65535}, MAX_BLOCK[3] = {1024, 1024, 64};
enum State { READY, AT_BARRIER, IN_WARP, IN_ACTIVE_MASK, ENDED };
const char *const STATES[] = {"is ready", "waits at a barrier", "waits in a warp operation", "waits in __activemask", "has ended"};

struct Thread {
  jmp_buf place;
  ucontext_t first;
  bool is_started;
  State state;
  unsigned line, mask;
  uint64_t value;
  emulated::Gathered gathered;
};

Thread thread[MAX_THREADS];
unsigned threads, running;
jmp_buf scheduler;
sigjmp_buf failure;
char message[400];
char *shared;
unsigned shared_bytes;
void (*body)(const void *);
const void *closure_of_body;

EmulatedIndex index_of(unsigned number, EmulatedIndex size) {
  return {number % size.x, number / size.x % size.y, number / size.x / size.y};
}

__attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  int length = snprintf(message, sizeof message, "block %u,%u,%u: ", blockIdx.x, blockIdx.y, blockIdx.z);
  vsnprintf(message + length, sizeof message - (size_t)length, format, values);
  va_end(values);
  siglongjmp(failure, 1);
}

void to_scheduler(State state, unsigned line) {
  Thread &own = thread[running];
  own.state = state, own.line = line;
  if (_setjmp(own.place) == 0) _longjmp(scheduler, 1);
}

/* A fiber runs the kernel again for each block. */
void life() {
  for (;;) {
    body(closure_of_body);
    to_scheduler(ENDED, 0);
  }
}

void to_thread(unsigned number) {
  Thread &next = thread[number];
  running = number, threadIdx = index_of(number, blockDim);
  if (_setjmp(scheduler) != 0) return;
  if (next.is_started) _longjmp(next.place, 1);
  next.is_started = true;
  setcontext(&next.first);
}

bool run_ready(bool descending) {
  bool any = false;
  for (unsigned i = 0; i < threads; ++i) {
    unsigned number = descending ? threads - 1 - i : i;
    if (thread[number].state != READY) continue;
    to_thread(number);
    any = true;
  }
  return any;
}

bool is_waiting(unsigned number, State state, unsigned line) {
  return number < threads && thread[number].state == state && thread[number].line == line;
}

/* The lanes that wait where `number` does, and have its mask. Complete if they are all of the mask that have not ended. */
bool release_warp_operation(unsigned number) {
  unsigned first = number / WARP * WARP, mask = thread[number].mask, line = thread[number].line;
  emulated::Gathered gathered = {{0}, 0};
  for (unsigned lane = 0; lane < WARP; ++lane) {
    unsigned other = first + lane;
    if (!(mask >> lane & 1) || other >= threads || thread[other].state == ENDED) continue;
    if (!is_waiting(other, IN_WARP, line) || thread[other].mask != mask) return false;
    gathered.value[lane] = thread[other].value;
    gathered.lanes |= 1u << lane;
  }
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (gathered.lanes >> lane & 1) thread[first + lane].gathered = gathered, thread[first + lane].state = READY;
  return true;
}

bool release_warp_operations() {
  bool any = false;
  for (unsigned i = 0; i < threads; ++i)
    if (thread[i].state == IN_WARP && release_warp_operation(i)) any = true;
  return any;
}

/* All threads are to reach the same barrier, those that have ended too. */
bool release_barrier() {
  for (unsigned i = 0; i < threads; ++i)
    if (!is_waiting(i, AT_BARRIER, thread[0].line)) return false;
  for (unsigned i = 0; i < threads; ++i) thread[i].state = READY;
  return true;
}

/* Nothing else can go on: lanes that wait in one place are the active ones there. */
bool release_active_masks() {
  bool any = false;
  for (unsigned i = 0; i < threads; ++i) {
    if (thread[i].state != IN_ACTIVE_MASK) continue;
    unsigned first = i / WARP * WARP, line = thread[i].line, lanes = 0;
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (is_waiting(first + lane, IN_ACTIVE_MASK, line)) lanes |= 1u << lane;
    for (unsigned lane = 0; lane < WARP; ++lane)
      if (lanes >> lane & 1) thread[first + lane].mask = lanes, thread[first + lane].state = READY;
    any = true;
  }
  return any;
}

void fail_waiting() {
  unsigned waiting = 0;
  while (thread[waiting].state == ENDED) ++waiting;
  unsigned other = 0;
  const Thread &one = thread[waiting];
  while (other < threads && (other == waiting || is_waiting(other, one.state, one.line))) ++other;
  if (other == threads)
    fail("thread %u %s in line %u for lanes %#x, which never agree", waiting, STATES[one.state], one.line, one.mask);
  fail("thread %u %s in line %u, and thread %u %s in line %u", waiting, STATES[one.state], one.line, other,
       STATES[thread[other].state], thread[other].line);
}

void run_block(bool descending) {
  emulated_poison(shared_begin, (unsigned long)(shared_end - shared_begin), EMULATED_UNWRITTEN);
  emulated_poison(shared, shared_bytes + 2 * EMULATED_GUARD_BYTES, EMULATED_GUARD);
  emulated_poison(shared + EMULATED_GUARD_BYTES, shared_bytes, EMULATED_UNWRITTEN);
  emulated::forget_copies(threads);
  for (unsigned i = 0; i < threads; ++i) thread[i].state = READY;
  while (run_ready(descending) || release_warp_operations() || release_barrier() || release_active_masks()) continue;
  for (unsigned i = 0; i < threads; ++i)
    if (thread[i].state != ENDED) fail_waiting();
  if (!emulated_is_poison(shared, EMULATED_GUARD_BYTES, EMULATED_GUARD) ||
      !emulated_is_poison(shared + EMULATED_GUARD_BYTES + shared_bytes, EMULATED_GUARD_BYTES, EMULATED_GUARD))
    fail("a thread wrote outside of the %u bytes of dynamic shared memory", shared_bytes);
}

void signalled(int number, siginfo_t *information, void *) {
  if (number == SIGFPE) fail("thread %u divided an integer by zero", running);
  fail("thread %u accessed the address %p", running, information->si_addr);
}

/* Signals arrive on a stack of their own: that of a fiber may be what is exhausted. */
class Signals {
 public:
  Signals() {
    static char stack[SIGNAL_STACK_BYTES];
    stack_t own = {};
    own.ss_sp = stack, own.ss_size = sizeof stack;
    sigaltstack(&own, &old_stack_);
    struct sigaction action = {};
    action.sa_sigaction = signalled, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < COUNT; ++i) sigaction(NUMBERS[i], &action, &old_[i]);
  }
  ~Signals() {
    for (int i = 0; i < COUNT; ++i) sigaction(NUMBERS[i], &old_[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  enum { COUNT = 3 };
  static constexpr int NUMBERS[COUNT] = {SIGSEGV, SIGBUS, SIGFPE};
  struct sigaction old_[COUNT];
  stack_t old_stack_;
};
constexpr int Signals::NUMBERS[];

void prepare_fibers(char *stacks) {
  for (unsigned i = 0; i < threads; ++i) {
    char *stack = stacks + (size_t)i * STACK_BYTES;
    mprotect(stack, GUARD_PAGE_BYTES, PROT_NONE);
    getcontext(&thread[i].first);
    thread[i].first.uc_stack.ss_sp = stack, thread[i].first.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread[i].first, life, 0);
    thread[i].is_started = false;
  }
}

void run_grid() {
  bool descending = false;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x, descending = !descending) run_block(descending);
}

const char *refuse(const char *format, unsigned found, unsigned allowed) {
  snprintf(message, sizeof message, format, found, allowed);
  return message;
}

const char *size_problem(const unsigned grid[3], const unsigned block[3], unsigned most_threads) {
  uint64_t count = (uint64_t)block[0] * block[1] * block[2];
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 1 || grid[i] > MAX_GRID[i]) return refuse("%u blocks along an axis; 1 to %u are allowed", grid[i], MAX_GRID[i]);
    if (block[i] < 1 || block[i] > MAX_BLOCK[i])
      return refuse("%u threads along an axis; 1 to %u are allowed", block[i], MAX_BLOCK[i]);
  }
  if (count > MAX_THREADS) return refuse("%u threads; a block has at most %u", (unsigned)count, MAX_THREADS);
  if (most_threads != 0 && count > most_threads)
    return refuse("%u threads; the kernel is compiled for at most %u", (unsigned)count, most_threads);
  return nullptr;
}

/* How g++ describes a place to its checks. */
struct SourcePlace {
  const char *file;
  unsigned line, column;
};

}  // namespace

namespace emulated {

unsigned lane() { return running % WARP; }

unsigned thread_number() { return running; }

void *dynamic_shared() { return shared + EMULATED_GUARD_BYTES; }

void wait_for_block(unsigned line) { to_scheduler(AT_BARRIER, line); }

const Gathered &gather(unsigned mask, uint64_t value, unsigned line) {
  Thread &own = thread[running];
  if (!(mask >> lane() & 1)) fail("thread %u is not in the lanes %#x that it names in line %u", running, mask, line);
  own.mask = mask, own.value = value;
  to_scheduler(IN_WARP, line);
  return own.gathered;
}

unsigned active_lanes(unsigned line) {
  Thread &own = thread[running];
  to_scheduler(IN_ACTIVE_MASK, line);
  return own.mask;
}

const char *run_blocks(const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared_bytes, unsigned most_threads,
                       void (*of_a_thread)(const void *closure), const void *closure) {
  shared_bytes = dynamic_shared_bytes;
  if (const char *problem = size_problem(grid, block, most_threads)) return problem;
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
  threads = block[0] * block[1] * block[2], body = of_a_thread, closure_of_body = closure;
  size_t stacks_bytes = (size_t)threads * STACK_BYTES;
  char *stacks = static_cast<char *>(
      mmap(nullptr, stacks_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  shared = static_cast<char *>(aligned_alloc(EMULATED_GUARD_BYTES, (2 + shared_bytes / EMULATED_GUARD_BYTES + 1) * EMULATED_GUARD_BYTES));
  if (stacks == MAP_FAILED || shared == nullptr) return "the host has no memory for the stacks";
  prepare_fibers(stacks);
  const char *volatile problem = nullptr;
  {
    Signals signals;
    if (sigsetjmp(failure, 1) == 0) run_grid();
    else problem = message;
  }
  munmap(stacks, stacks_bytes);
  free(shared);
  return problem;
}

}  // namespace emulated

extern "C" {
void __ubsan_handle_out_of_bounds(SourcePlace *place, void *index) {
  fail("thread %u used the index %lld of an array, out of its bounds, in line %u", running, (long long)(intptr_t)index,
       place->line);
}
void __ubsan_handle_type_mismatch_v1(SourcePlace *place, void *address) {
  fail("thread %u accessed the address %p, which is not aligned, in line %u", running, address, place->line);
}
}
