/* half, in place of the CUDA toolkit's file of this name. */
#ifndef CUDA_FP16_H_
#define CUDA_FP16_H_

#include "narrow_float.h"

struct HalfFormat {
  static unsigned short narrowed(float value) { return emulated_bits<unsigned short>((_Float16)value); }
  static float widened(unsigned short bits) { return (float)emulated_bits<_Float16>(bits); }
};
typedef NarrowFloat<HalfFormat> __half;
typedef NarrowFloat2<HalfFormat> __half2;
typedef __half half;
typedef __half2 half2;

inline float __half2float(__half value) { return value; }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __ushort_as_half(unsigned short bits) { return emulated_bits<__half>(bits); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half2 make_half2(__half x, __half y) { return __half2(x, y); }
inline __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
#endif
