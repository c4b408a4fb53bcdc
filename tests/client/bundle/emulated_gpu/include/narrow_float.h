/* Floats of 16 bits. Each operation is computed with 32 bits and rounded, which for half gives what a GPU does. */
#ifndef NARROW_FLOAT_H_
#define NARROW_FLOAT_H_

#include "emulated_device.h"

template <typename Format>
struct NarrowFloat {
  unsigned short bits;

  NarrowFloat() = default;
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  NarrowFloat(T value) : bits(Format::narrowed((float)value)) {}
  NarrowFloat(const NarrowFloat &) = default;
  /* Reductions over the threads of a block read and write shared memory as volatile. */
  NarrowFloat(const volatile NarrowFloat &other) : bits(other.bits) {}
  NarrowFloat &operator=(const NarrowFloat &) = default;
  void operator=(const NarrowFloat &other) volatile { bits = other.bits; }
  operator float() const volatile { return Format::widened(bits); }

  friend NarrowFloat operator+(NarrowFloat a, NarrowFloat b) { return NarrowFloat((float)a + (float)b); }
  friend NarrowFloat operator-(NarrowFloat a, NarrowFloat b) { return NarrowFloat((float)a - (float)b); }
  friend NarrowFloat operator*(NarrowFloat a, NarrowFloat b) { return NarrowFloat((float)a * (float)b); }
  friend NarrowFloat operator/(NarrowFloat a, NarrowFloat b) { return NarrowFloat((float)a / (float)b); }
  friend NarrowFloat operator-(NarrowFloat a) { return NarrowFloat(-(float)a); }
  NarrowFloat &operator+=(NarrowFloat b) { return *this = *this + b; }
  NarrowFloat &operator-=(NarrowFloat b) { return *this = *this - b; }
  NarrowFloat &operator*=(NarrowFloat b) { return *this = *this * b; }
  NarrowFloat &operator/=(NarrowFloat b) { return *this = *this / b; }
};

template <typename Format>
struct alignas(4) NarrowFloat2 {
  NarrowFloat<Format> x, y;
  NarrowFloat2() = default;
  NarrowFloat2(NarrowFloat<Format> x, NarrowFloat<Format> y) : x(x), y(y) {}
};

#define EMULATED_UNARY(name, expression)                     \
  template <typename Format>                                 \
  inline NarrowFloat<Format> name(NarrowFloat<Format> given) { \
    float x = given;                                         \
    return NarrowFloat<Format>(expression);                  \
  }
EMULATED_UNARY(hexp, expf(x))
EMULATED_UNARY(hexp2, exp2f(x))
EMULATED_UNARY(hexp10, powf(10.0f, x))
EMULATED_UNARY(hlog, logf(x))
EMULATED_UNARY(hlog2, log2f(x))
EMULATED_UNARY(hlog10, log10f(x))
EMULATED_UNARY(hsin, sinf(x))
EMULATED_UNARY(hcos, cosf(x))
EMULATED_UNARY(htanh, tanhf(x))
EMULATED_UNARY(hsqrt, sqrtf(x))
EMULATED_UNARY(hrsqrt, 1.0f / sqrtf(x))
EMULATED_UNARY(hrcp, 1.0f / x)
EMULATED_UNARY(hceil, ceilf(x))
EMULATED_UNARY(hfloor, floorf(x))
EMULATED_UNARY(htrunc, truncf(x))
EMULATED_UNARY(hrint, rintf(x))
EMULATED_UNARY(__habs, fabsf(x))
EMULATED_UNARY(__hneg, -x)
#undef EMULATED_UNARY

#define EMULATED_BINARY(name, type, expression)                                           \
  template <typename Format>                                                              \
  inline type name(NarrowFloat<Format> left, NarrowFloat<Format> right) {                 \
    float x = left, y = right;                                                            \
    return type(expression);                                                              \
  }
EMULATED_BINARY(__hgt, bool, x > y)
EMULATED_BINARY(__hge, bool, x >= y)
EMULATED_BINARY(__hlt, bool, x < y)
EMULATED_BINARY(__hle, bool, x <= y)
EMULATED_BINARY(__heq, bool, x == y)
EMULATED_BINARY(__hadd, NarrowFloat<Format>, x + y)
EMULATED_BINARY(__hsub, NarrowFloat<Format>, x - y)
EMULATED_BINARY(__hmul, NarrowFloat<Format>, x * y)
EMULATED_BINARY(__hdiv, NarrowFloat<Format>, x / y)
EMULATED_BINARY(__hmax, NarrowFloat<Format>, fmaxf(x, y))
EMULATED_BINARY(__hmin, NarrowFloat<Format>, fminf(x, y))
#undef EMULATED_BINARY

template <typename Format>
inline NarrowFloat<Format> __hfma(NarrowFloat<Format> a, NarrowFloat<Format> b, NarrowFloat<Format> c) {
  return NarrowFloat<Format>(fmaf(a, b, c));
}
template <typename Format>
inline bool __hisnan(NarrowFloat<Format> value) {
  return std::isnan((float)value);
}
template <typename Format>
inline bool __hisinf(NarrowFloat<Format> value) {
  return std::isinf((float)value);
}
#endif
