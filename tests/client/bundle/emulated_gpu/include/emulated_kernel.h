/* What a library of compiled kernels exports for each kernel, as the symbol emulated_NAME. C and C++. */
#ifndef EMULATED_KERNEL_H_
#define EMULATED_KERNEL_H_

typedef struct {
  int parameters;
  /* Runs all blocks. Returns null, or what a GPU would not have done. */
  const char *(*run)(const unsigned grid[3], const unsigned block[3], unsigned dynamic_shared_bytes, void **parameters);
} EmulatedKernel;

/* Fills memory that nothing has written: NaN as a float of 16, 32 or 64 bits, a large number as an integer. */
static inline void emulated_poison(void *memory, unsigned long bytes, unsigned short pattern) {
  unsigned char halves[2] = {(unsigned char)pattern, (unsigned char)(pattern >> 8)};
  for (unsigned long i = 0; i < bytes; ++i) ((unsigned char *)memory)[i] = halves[i % 2];
}

static inline int emulated_is_poison(const void *memory, unsigned long bytes, unsigned short pattern) {
  unsigned char halves[2] = {(unsigned char)pattern, (unsigned char)(pattern >> 8)};
  for (unsigned long i = 0; i < bytes; ++i)
    if (((const unsigned char *)memory)[i] != halves[i % 2]) return 0;
  return 1;
}

enum { EMULATED_UNWRITTEN = 0x7FFD, EMULATED_GUARD = 0x7FFB, EMULATED_GUARD_BYTES = 4096 };
#endif
