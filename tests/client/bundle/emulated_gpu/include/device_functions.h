/* Functions of a GPU's threads, as a processor computes them. */
#ifndef DEVICE_FUNCTIONS_H_
#define DEVICE_FUNCTIONS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

/* CUDA's approximations are computed exactly here: tests compare with a tolerance. */
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float exp10f(float x) { return powf(10.0f, x); }
inline double exp10(double x) { return pow(10.0, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __saturatef(float x) { return x > 0.0f ? fminf(x, 1.0f) : 0.0f; }

/* Where one is not a number, CUDA's max and min of floats are the other. */
template <typename A, typename B>
using EmulatedCommon = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                                               typename std::common_type<A, B>::type>::type;
template <typename A, typename B>
inline EmulatedCommon<A, B> max(A a, B b) {
  EmulatedCommon<A, B> x = a, y = b;
  return x != x ? y : y > x ? y : x;
}
template <typename A, typename B>
inline EmulatedCommon<A, B> min(A a, B b) {
  EmulatedCommon<A, B> x = a, y = b;
  return x != x ? y : y < x ? y : x;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __mul24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
inline int __mulhi(int x, int y) { return (int)((int64_t)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }

template <typename To, typename From>
inline To emulated_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "a value has as many bits as before");
  To same;
  memcpy(&same, &value, sizeof same);
  return same;
}
inline int __float_as_int(float x) { return emulated_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
inline float __int_as_float(int x) { return emulated_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }

template <typename T>
inline T __ldg(const T *address) {
  return *address;
}

/* Threads change places at barriers only, so that plain reads and writes are atomic. */
template <typename T, typename V>
inline T atomicAdd(T *address, V value) {
  T old = *address;
  *address = (T)(old + (T)value);
  return old;
}
template <typename T, typename V>
inline T atomicMax(T *address, V value) {
  T old = *address;
  if ((T)value > old) *address = (T)value;
  return old;
}
template <typename T, typename V>
inline T atomicMin(T *address, V value) {
  T old = *address;
  if ((T)value < old) *address = (T)value;
  return old;
}
template <typename T>
inline T atomicExch(T *address, T value) {
  T old = *address;
  *address = value;
  return old;
}
template <typename T>
inline T atomicCAS(T *address, T compare, T value) {
  T old = *address;
  if (old == compare) *address = value;
  return old;
}

template <typename A, typename B>
inline int emulated_dot(A a, B b, int c) {
  typedef typename std::conditional<std::is_signed<A>::value, int8_t, uint8_t>::type ByteA;
  typedef typename std::conditional<std::is_signed<B>::value, int8_t, uint8_t>::type ByteB;
  for (int i = 0; i < 4; ++i) c += (ByteA)(a >> (8 * i)) * (ByteB)(b >> (8 * i));
  return c;
}
inline int __dp4a(int a, int b, int c) { return emulated_dot(a, b, c); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return (unsigned)emulated_dot(a, b, (int)c); }
#endif
