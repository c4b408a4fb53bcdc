/* How far the outputs of a model are from those of its test vectors, in C and C++. */
#ifndef TUNEFARM_COMPARISON_H_
#define TUNEFARM_COMPARISON_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tunefarm_model.h"

/* Floats of 16 bits round each sum and each intermediate tensor more coarsely. */
#define TUNEFARM_HALF_TOLERANCES 4.0

static inline double tunefarm_half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = ldexp(fraction + (exponent > 0 ? 1024 : 0), (exponent > 0 ? exponent : 1) - 25);
  if (exponent == 31) value = fraction == 0 ? INFINITY : NAN;
  return bits >> 15 ? -value : value;
}

static inline double tunefarm_element(DLDataType type, const void *tensor, uint64_t at) {
  if (type.bits == 64) return ((const double *)tensor)[at];
  if (type.bits == 32) return ((const float *)tensor)[at];
  uint16_t bits = ((const uint16_t *)tensor)[at];
  if (type.code == kDLFloat) return tunefarm_half(bits);
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* The largest difference relative to the largest element that is expected, in units of what is allowed: at most 1 is
 * right. Types without a fraction are equal (0) or not (infinity), and so are floats of other sizes. */
static inline double tunefarm_error_of(const TunefarmTensor *tensor, const void *found, const void *expected,
                                       double tolerance) {
  DLDataType type = tensor->type;
  int is_half = type.bits == 16 && (type.code == kDLFloat || type.code == kDLBfloat);
  if (!is_half && (type.code != kDLFloat || (type.bits != 32 && type.bits != 64)))
    return memcmp(found, expected, (size_t)tensor->bytes) == 0 ? 0.0 : INFINITY;
  double largest = 0.0, scale = 1e-6;
  for (uint64_t i = 0; i < tensor->bytes / (type.bits / 8); ++i) {
    double one = tunefarm_element(type, found, i), other = tunefarm_element(type, expected, i);
    if (isfinite(one) != isfinite(other)) return INFINITY;
    if (!isfinite(other)) continue;
    scale = fmax(scale, fabs(other));
    largest = fmax(largest, fabs(one - other));
  }
  return largest / scale / (is_half ? TUNEFARM_HALF_TOLERANCES * tolerance : tolerance);
}

#endif
