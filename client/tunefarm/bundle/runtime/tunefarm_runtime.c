/* See tunefarm_runtime.h. */
#include "tunefarm_runtime.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define MAX_THREADS 256

static _Thread_local char last_error[512];

DLTensor tunefarm_tensor(void *data, int32_t dimensions, int64_t *shape, DLDataTypeCode code, uint8_t bits) {
  DLTensor tensor = {data, {kDLCPU, 0}, dimensions, {(uint8_t)code, bits, 1}, shape, NULL, 0};
  return tensor;
}

int tunefarm_call(TunefarmKernel kernel, DLTensor *const *arguments, int32_t count) {
  TVMFFIAny packed[TUNEFARM_MAX_ARGUMENTS], result = {kTVMFFINone, 0, {0}};
  if (count < 0 || count > TUNEFARM_MAX_ARGUMENTS) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "too many arguments");
    return -1;
  }
  for (int32_t i = 0; i < count; ++i) {
    packed[i].type_index = kTVMFFIDLTensorPtr;
    packed[i].zero_padding = 0;
    packed[i].v_int64 = 0; /* all eight bytes, also where pointers have four */
    packed[i].v_ptr = arguments[i];
  }
  last_error[0] = '\0';
  return kernel(NULL, packed, count, &result);
}

const char *tunefarm_last_error(void) { return last_error; }

static void append(const char *text) {
  size_t used = strlen(last_error);
  strncat(last_error, text, sizeof last_error - used - 1);
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  last_error[0] = '\0';
  append(kind);
  append(": ");
  for (int32_t i = 0; i < count; ++i) append(parts[i]);
}

/* Workspaces that were freed, for the next kernels of this thread: each kernel asks for the same ones in each run. */
#define KEPT_WORKSPACES 8

typedef struct {
  uint64_t bytes;
  unsigned char padding[ALIGNMENT - sizeof(uint64_t)];
} WorkspaceHeader;

static _Thread_local WorkspaceHeader *kept[KEPT_WORKSPACES];

/* The smallest kept workspace that is large enough. */
static WorkspaceHeader *take_kept(uint64_t bytes) {
  int best = -1;
  for (int i = 0; i < KEPT_WORKSPACES; ++i) {
    if (kept[i] == NULL || kept[i]->bytes < bytes) continue;
    if (best < 0 || kept[i]->bytes < kept[best]->bytes) best = i;
  }
  if (best < 0) return NULL;
  WorkspaceHeader *found = kept[best];
  kept[best] = NULL;
  return found;
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int code_hint, int bits_hint) {
  (void)device_type, (void)device_id, (void)code_hint, (void)bits_hint;
  if (bytes > SIZE_MAX - 2 * ALIGNMENT) return NULL;
  WorkspaceHeader *workspace = take_kept(bytes);
  if (workspace == NULL) {
    size_t whole = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    workspace = aligned_alloc(ALIGNMENT, sizeof *workspace + whole);
    if (workspace == NULL) return NULL;
    workspace->bytes = whole;
  }
  return workspace + 1;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *memory) {
  (void)device_type, (void)device_id;
  if (memory == NULL) return 0;
  WorkspaceHeader *workspace = (WorkspaceHeader *)memory - 1;
  int place = 0;
  for (int i = 0; i < KEPT_WORKSPACES; ++i) {
    if (kept[i] == NULL) {
      kept[i] = workspace;
      return 0;
    }
    if (kept[i]->bytes < kept[place]->bytes) place = i;
  }
  /* Keep the larger ones: those take longest to get, and serve every kernel. */
  if (kept[place]->bytes < workspace->bytes) {
    WorkspaceHeader *smaller = kept[place];
    kept[place] = workspace;
    workspace = smaller;
  }
  free(workspace);
  return 0;
}

void tunefarm_release_workspaces(void) {
  for (int i = 0; i < KEPT_WORKSPACES; ++i) {
    free(kept[i]);
    kept[i] = NULL;
  }
}

/* Kernels from LLVM call through these variables, which TVM's loader sets in a shared library. Each kernel has a weak
 * definition of them that is null. */
int (*__TVMBackendParallelLaunch)(FTVMParallelLambda, void *, int) = TVMBackendParallelLaunch;
int (*__TVMBackendParallelBarrier)(int, TVMParallelGroupEnv *) = TVMBackendParallelBarrier;
void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = TVMBackendAllocWorkspace;
int (*__TVMBackendFreeWorkspace)(int, int, void *) = TVMBackendFreeWorkspace;

#ifdef TUNEFARM_RUNTIME_SERIAL

int tunefarm_start_threads(int threads) { return threads == 1 ? 0 : -1; }

int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void *closure, int num_task) {
  (void)num_task;
  TVMParallelGroupEnv environment = {NULL, 1};
  return lambda(0, &environment, closure);
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *environment) {
  (void)task_id, (void)environment;
  return 0;
}

#else

#include <pthread.h>

/* One parallel loop at a time: a second caller runs its loop alone, as a loop inside of a loop does. */
static struct {
  pthread_mutex_t lock, launch;
  pthread_cond_t work, done;
  int threads, generation, tasks, next, running, failed;
  FTVMParallelLambda lambda;
  void *closure;
  TVMParallelGroupEnv environment;
  char error[sizeof last_error];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .launch = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER, .threads = 1};

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t all;
  int waiting, round;
} Barrier;

/* Takes tasks of the current loop until none is left. The caller holds the lock. */
static void run_tasks(void) {
  while (pool.next < pool.tasks) {
    int task = pool.next++;
    FTVMParallelLambda lambda = pool.lambda;
    void *closure = pool.closure;
    pool.running++;
    pthread_mutex_unlock(&pool.lock);
    int failed = lambda(task, &pool.environment, closure);
    pthread_mutex_lock(&pool.lock);
    if (failed && !pool.failed) memcpy(pool.error, last_error, sizeof last_error);
    pool.failed |= failed;
    pool.running--;
  }
}

static void *serve(void *unused) {
  (void)unused;
  int seen = 0;
  pthread_mutex_lock(&pool.lock);
  for (;;) {
    while (pool.generation == seen) pthread_cond_wait(&pool.work, &pool.lock);
    seen = pool.generation;
    run_tasks();
    if (pool.running == 0) pthread_cond_signal(&pool.done);
  }
  return NULL;
}

int tunefarm_start_threads(int threads) {
  if (threads < 1 || threads > MAX_THREADS) return -1;
  while (pool.threads < threads) {
    pthread_t started;
    if (pthread_create(&started, NULL, serve, NULL) != 0) return -1;
    pthread_detach(started);
    pool.threads++;
  }
  return 0;
}

static int run_alone(FTVMParallelLambda lambda, void *closure) {
  TVMParallelGroupEnv environment = {NULL, 1};
  return lambda(0, &environment, closure);
}

int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void *closure, int num_task) {
  if (pool.threads == 1 || pthread_mutex_trylock(&pool.launch) != 0) return run_alone(lambda, closure);
  Barrier barrier = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
  pthread_mutex_lock(&pool.lock);
  /* A barrier needs a thread for each task, so there are never more tasks than threads. */
  pool.tasks = num_task > 0 && num_task < pool.threads ? num_task : pool.threads;
  pool.environment = (TVMParallelGroupEnv){&barrier, pool.tasks};
  pool.lambda = lambda, pool.closure = closure, pool.next = 0, pool.failed = 0;
  pool.generation++;
  pthread_cond_broadcast(&pool.work);
  run_tasks();
  while (pool.running != 0) pthread_cond_wait(&pool.done, &pool.lock);
  int failed = pool.failed;
  if (failed) memcpy(last_error, pool.error, sizeof last_error);
  pthread_mutex_unlock(&pool.lock);
  pthread_mutex_unlock(&pool.launch);
  return failed;
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *environment) {
  (void)task_id;
  Barrier *barrier = environment->sync_handle;
  if (barrier == NULL) return 0;
  pthread_mutex_lock(&barrier->lock);
  int round = barrier->round;
  if (++barrier->waiting == environment->num_task) {
    barrier->waiting = 0;
    barrier->round++;
    pthread_cond_broadcast(&barrier->all);
  }
  while (barrier->round == round) pthread_cond_wait(&barrier->all, &barrier->lock);
  pthread_mutex_unlock(&barrier->lock);
  return 0;
}

#endif

#if defined(__arm__) && defined(__GNUC__)
/* Kernels divide by these where the processor has no instruction for it. Libraries of compilers for ARM's EABI need only
 * have the functions that the divisions below call; those that have these too take precedence. */
#define DIVISION(name, type, operator)             \
  __attribute__((weak)) type name(type a, type b); \
  __attribute__((weak)) type name(type a, type b) { return a operator b; }
DIVISION(__divsi3, int32_t, /)
DIVISION(__udivsi3, uint32_t, /)
DIVISION(__modsi3, int32_t, %)
DIVISION(__umodsi3, uint32_t, %)
#endif
