/* CUDA's vectors of numbers, with its sizes and alignments. */
#ifndef VECTOR_TYPES_H_
#define VECTOR_TYPES_H_

#define EMULATED_VECTORS(name, type, alignment2, alignment4)                                              \
  struct name##1 { type x; };                                                                             \
  struct alignas(alignment2) name##2 { type x, y; };                                                      \
  struct name##3 { type x, y, z; };                                                                       \
  struct alignas(alignment4) name##4 { type x, y, z, w; };                                                \
  inline name##1 make_##name##1(type x) { return {x}; }                                                   \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                        \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                             \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

EMULATED_VECTORS(char, signed char, 2, 4)
EMULATED_VECTORS(uchar, unsigned char, 2, 4)
EMULATED_VECTORS(short, short, 4, 8)
EMULATED_VECTORS(ushort, unsigned short, 4, 8)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(uint, unsigned int, 8, 16)
EMULATED_VECTORS(longlong, long long, 16, 16)
EMULATED_VECTORS(ulonglong, unsigned long long, 16, 16)
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(double, double, 16, 16)

#undef EMULATED_VECTORS
#endif
