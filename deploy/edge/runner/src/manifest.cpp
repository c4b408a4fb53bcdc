#include "manifest.h"

#include <string.h>
#include <unistd.h>

#include "release_folder.h"

namespace tunefarm {
namespace {

constexpr uint64_t MAX_MANIFEST_BYTES = 1 << 24;
constexpr int MAX_FORMAT = 1000000;

// A decimal number. strtod depends on the locale of the program.
double number_of(const char *at, const char *end) {
  double value = 0.0, unit = 1.0;
  int exponent = 0, sign = 1;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) value = value * 10 + (*at - '0');
  if (at < end && *at == '.')
    for (++at; at < end && *at >= '0' && *at <= '9'; ++at) value += (unit /= 10) * (*at - '0');
  if (at < end && (*at == 'e' || *at == 'E')) {
    if (++at < end && (*at == '-' || *at == '+')) sign = *at++ == '-' ? -1 : 1;
    for (; at < end && *at >= '0' && *at <= '9' && exponent < 400; ++at) exponent = exponent * 10 + (*at - '0');
  }
  for (; exponent > 0; --exponent) value = sign > 0 ? value * 10 : value / 10;
  return value;
}

// The number of a key of the outermost object; 0 if there is none.
double number_at(const char *text, size_t size, const char *key) {
  const char *end = text + size;
  int depth = 0;
  for (const char *at = text; at < end; ++at) {
    if (*at == '{' || *at == '[') ++depth;
    if (*at == '}' || *at == ']') --depth;
    if (*at != '"') continue;
    const char *begin = ++at;
    while (at < end && *at != '"') at += *at == '\\' ? 2 : 1;
    if (at >= end) return 0.0;
    bool is_key = depth == 1 && static_cast<size_t>(at - begin) == strlen(key) && memcmp(begin, key, strlen(key)) == 0;
    const char *after = at + 1;
    while (after < end && (*after == ' ' || *after == '\n')) ++after;
    if (!is_key || after >= end || *after != ':') continue;
    for (++after; after < end && *after == ' '; ++after) continue;
    return number_of(after, end);
  }
  return 0.0;
}

}  // namespace

Code read_manifest(int folder, const ReleaseText &release, Manifest *manifest) {
  const ReleaseFile &expected = release.file[0];
  Descriptor file;
  Memory text;
  Code code = open_verified(folder, expected, &file);
  if (code != TUNEFARM_RUNNER_OK) return code;
  if (expected.bytes > MAX_MANIFEST_BYTES || !text.allocate(expected.bytes))
    return fail(TUNEFARM_RUNNER_LOAD_FAILED, "manifest.json is too large");
  ssize_t got = read(file.get(), text.get(), expected.bytes);
  size_t size = got < 0 ? 0 : static_cast<size_t>(got);
  double format = number_at(text.text(), size, "format");
  manifest->format = format < MAX_FORMAT ? static_cast<int>(format) : MAX_FORMAT;
  manifest->tolerance = number_at(text.text(), size, "tolerance");
  return TUNEFARM_RUNNER_OK;
}

}  // namespace tunefarm
