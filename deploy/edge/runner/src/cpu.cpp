#include "cpu.h"

#include <stdint.h>
#include <string.h>

#include "tunefarm_runner.h"

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif

namespace tunefarm {
namespace {

#if defined(__x86_64__)
// Registers of cpuid: leaf 1 ecx, leaf 7.0 ebx, ecx, edx, leaf 7.1 eax, edx, leaf 0x80000001 ecx. The operating system must
// save the registers that an instruction uses (bits of XCR0), or it raises SIGILL.
enum Word { L1C, L7B, L7C, L7D, L71A, L71D, LXC, WORDS };
enum State : uint64_t { NONE = 0, YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };
struct Feature {
  const char *name;
  Word word;
  int bit;
  State state;
};
constexpr Feature FEATURES[] = {
    {"pni", L1C, 0, NONE}, {"pclmulqdq", L1C, 1, NONE}, {"ssse3", L1C, 9, NONE}, {"fma", L1C, 12, YMM},
    {"cx16", L1C, 13, NONE}, {"sse4_1", L1C, 19, NONE}, {"sse4_2", L1C, 20, NONE}, {"movbe", L1C, 22, NONE},
    {"popcnt", L1C, 23, NONE}, {"aes", L1C, 25, NONE}, {"avx", L1C, 28, YMM}, {"f16c", L1C, 29, YMM},
    {"bmi1", L7B, 3, NONE}, {"avx2", L7B, 5, YMM}, {"bmi2", L7B, 8, NONE}, {"avx512f", L7B, 16, ZMM},
    {"avx512dq", L7B, 17, ZMM}, {"adx", L7B, 19, NONE}, {"avx512ifma", L7B, 21, ZMM}, {"avx512cd", L7B, 28, ZMM},
    {"sha_ni", L7B, 29, NONE}, {"avx512bw", L7B, 30, ZMM}, {"avx512vl", L7B, 31, ZMM}, {"avx512vbmi", L7C, 1, ZMM},
    {"avx512_vbmi2", L7C, 6, ZMM}, {"gfni", L7C, 8, NONE}, {"vaes", L7C, 9, YMM}, {"vpclmulqdq", L7C, 10, YMM},
    {"avx512_vnni", L7C, 11, ZMM}, {"avx512_bitalg", L7C, 12, ZMM}, {"avx512_vpopcntdq", L7C, 14, ZMM},
    {"amx_bf16", L7D, 22, TILES}, {"avx512_fp16", L7D, 23, ZMM}, {"amx_tile", L7D, 24, TILES},
    {"amx_int8", L7D, 25, TILES}, {"avx_vnni", L71A, 4, YMM}, {"avx512_bf16", L71A, 5, ZMM}, {"abm", LXC, 5, NONE},
    {"lahf_lm", LXC, 0, NONE}, {"sse4a", LXC, 6, NONE}, {"xop", LXC, 11, YMM}, {"fma4", LXC, 16, YMM},
    {"tbm", LXC, 21, NONE}, {"avx512_vp2intersect", L7D, 8, ZMM}, {"cmpccxadd", L71A, 7, NONE},
    {"amx_fp16", L71A, 21, TILES}, {"avx_ifma", L71A, 23, YMM}, {"avx_vnni_int8", L71D, 4, YMM},
    {"avx_ne_convert", L71D, 5, YMM}, {"amx_complex", L71D, 8, TILES}, {"avx_vnni_int16", L71D, 10, YMM},
};

bool has(const Feature &feature) {
  unsigned a = 0, b = 0, c = 0, d = 0, words[WORDS] = {};
  if (__get_cpuid(1, &a, &b, &c, &d)) words[L1C] = c;
  bool saves = (words[L1C] >> 27 & 1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    words[L7B] = b, words[L7C] = c, words[L7D] = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) words[L71A] = a, words[L71D] = d;
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) words[LXC] = c;
  uint32_t low = 0, high = 0;
  if (saves) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (words[feature.word] >> feature.bit & 1) != 0 && (low & feature.state) == feature.state;
}
#else
struct Feature {
  const char *name;
  unsigned long entry;
  int bit;
};
#if defined(__aarch64__)
constexpr Feature FEATURES[] = {
    {"fp", AT_HWCAP, 0}, {"asimd", AT_HWCAP, 1}, {"aes", AT_HWCAP, 3}, {"pmull", AT_HWCAP, 4}, {"sha1", AT_HWCAP, 5},
    {"sha2", AT_HWCAP, 6}, {"crc32", AT_HWCAP, 7}, {"atomics", AT_HWCAP, 8}, {"fphp", AT_HWCAP, 9},
    {"asimdhp", AT_HWCAP, 10}, {"asimdrdm", AT_HWCAP, 12}, {"jscvt", AT_HWCAP, 13}, {"fcma", AT_HWCAP, 14},
    {"lrcpc", AT_HWCAP, 15}, {"dcpop", AT_HWCAP, 16}, {"sha3", AT_HWCAP, 17}, {"sm3", AT_HWCAP, 18},
    {"sm4", AT_HWCAP, 19}, {"asimddp", AT_HWCAP, 20}, {"sha512", AT_HWCAP, 21}, {"sve", AT_HWCAP, 22},
    {"asimdfhm", AT_HWCAP, 23}, {"uscat", AT_HWCAP, 25}, {"ilrcpc", AT_HWCAP, 26}, {"flagm", AT_HWCAP, 27},
    {"sve2", AT_HWCAP2, 1}, {"flagm2", AT_HWCAP2, 7}, {"frint", AT_HWCAP2, 8}, {"svei8mm", AT_HWCAP2, 9},
    {"svef32mm", AT_HWCAP2, 10}, {"svebf16", AT_HWCAP2, 12}, {"i8mm", AT_HWCAP2, 13}, {"bf16", AT_HWCAP2, 14},
};
#elif defined(__arm__)
constexpr Feature FEATURES[] = {
    {"half", AT_HWCAP, 1}, {"thumb", AT_HWCAP, 2}, {"fastmult", AT_HWCAP, 4}, {"vfp", AT_HWCAP, 6},
    {"edsp", AT_HWCAP, 7}, {"neon", AT_HWCAP, 12}, {"vfpv3", AT_HWCAP, 13}, {"vfpv3d16", AT_HWCAP, 14},
    {"tls", AT_HWCAP, 15}, {"vfpv4", AT_HWCAP, 16}, {"idiva", AT_HWCAP, 17}, {"idivt", AT_HWCAP, 18},
    {"vfpd32", AT_HWCAP, 19}, {"lpae", AT_HWCAP, 20}, {"fphp", AT_HWCAP, 22}, {"asimdhp", AT_HWCAP, 23},
    {"asimddp", AT_HWCAP, 24}, {"asimdfhm", AT_HWCAP, 25}, {"i8mm", AT_HWCAP, 27}, {"aes", AT_HWCAP2, 0},
    {"crc32", AT_HWCAP2, 4},
};
#else
// Linux has a bit for each extension of one letter.
constexpr Feature FEATURES[] = {
    {"a", AT_HWCAP, 0}, {"c", AT_HWCAP, 2}, {"d", AT_HWCAP, 3},  {"f", AT_HWCAP, 5},
    {"i", AT_HWCAP, 8}, {"m", AT_HWCAP, 12}, {"v", AT_HWCAP, 21},
};
#endif

bool has(const Feature &feature) { return (getauxval(feature.entry) >> feature.bit & 1) != 0; }
#endif

}  // namespace

bool has_cpu_feature(const char *name, size_t size) {
  for (const Feature &each : FEATURES)
    if (strlen(each.name) == size && memcmp(each.name, name, size) == 0) return has(each);
  return false;
}

}  // namespace tunefarm

extern "C" size_t tunefarm_runner_cpu_features(char *buffer, size_t size) {
  size_t written = 0;
  for (const tunefarm::Feature &each : tunefarm::FEATURES) {
    size_t length = strlen(each.name);
    if (!tunefarm::has(each) || written + length + 2 > size) continue;
    memcpy(buffer + written, each.name, length);
    buffer[written + length] = ' ';
    written += length + 1;
  }
  if (written < size) buffer[written] = 0;
  return written;
}
