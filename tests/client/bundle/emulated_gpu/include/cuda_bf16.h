/* bfloat16, in place of the CUDA toolkit's file of this name. */
#ifndef CUDA_BF16_H_
#define CUDA_BF16_H_

#include "narrow_float.h"

struct BfloatFormat {
  /* To nearest, ties to even. */
  static unsigned short narrowed(float value) {
    unsigned bits = __float_as_uint(value);
    if (value != value) return (unsigned short)(bits >> 16 | 0x40);
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  static float widened(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
};
typedef NarrowFloat<BfloatFormat> __nv_bfloat16;
typedef NarrowFloat2<BfloatFormat> __nv_bfloat162;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
#endif
