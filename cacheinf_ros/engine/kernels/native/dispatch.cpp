// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Picks the instruction set; the plain C interface of single kernels; lays out weights.
#include <cstring>

#include "kernels.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ci {
namespace {
constexpr int kMost = 3;

// Those that this machine runs, the best first; the last one is followed by null.
struct Available {
  const Isa* list[kMost + 1] = {};

  Available() {
    const Isa** next = list;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
      *next++ = isa_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) *next++ = isa_avx2();
#elif defined(__aarch64__) && defined(__linux__)
    const bool dotprod = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    if (dotprod && (~getauxval(AT_HWCAP2) & (HWCAP2_I8MM | HWCAP2_BF16)) == 0) *next++ = isa_i8mm();
    if (dotprod) *next++ = isa_dotprod();
#endif
    *next = isa_base();
  }
};

// Whether the processor multiplies tiles of bfloat16 and of bytes (AMX), and Linux lets this process have them.
bool find_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24, kBytes = 1u << 25, kAll = kBfloat16 | kTiles | kBytes;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & kAll) != kAll) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

const Available& available() {
  static const Available found;
  return found;
}
}  // namespace

const Isa* best_isa() { return available().list[0]; }

const Isa* isa_named(const char* name) {
  for (const Isa* const* isa = available().list; *isa; ++isa)
    if (!std::strcmp((*isa)->name, name)) return *isa;
  return nullptr;
}
}  // namespace ci

namespace {
constexpr int kDepth = 16;  // as in isa/igemm.h

int64_t padded_depth(int taps, int in_channels) { return (int64_t(taps) * in_channels + kDepth - 1) / kDepth * kDepth; }
}  // namespace

extern "C" {

const char* ci_instruction_set() { return ci::best_isa()->name; }

// Whether CI_CONV_BFLOAT16 runs on this machine.
int ci_has_bfloat16() {
#if defined(__x86_64__)
  return ci::best_isa()->has_bfloat16 && __builtin_cpu_supports("avx512bf16");
#else
  return ci::best_isa()->has_bfloat16;
#endif
}

// Whether CI_CONV_INT8 runs on this machine; CI_CONV_INT8_PAIRS, which computes the same, does everywhere.
int ci_has_byte_dot() { return ci::best_isa()->has_byte_dot; }

// Whether CI_CONV_BFLOAT16_TILES and CI_CONV_INT8_TILES run in this process.
int ci_has_tiles() {
  // Linux is asked last: what it grants is for the whole process, and for good.
  static const bool has_tiles = !std::strcmp(ci::best_isa()->name, "avx512") && ci_has_bfloat16() && ci::find_tiles();
  return has_tiles;
}

int ci_tile_steps(int values, int together) {
  const int steps = (values + CI_TILE_QUADS * together - 1) / (CI_TILE_QUADS * together);
  return steps == 1 && values > together && values % together != 0 ? 2 : steps;  // two that overlap: one would reach beyond
}

// Output channels of a panel of packed weights.
int ci_packed_columns() { return ci::best_isa()->columns; }

// Floats that ci_pack_weight writes; channels are per group.
int64_t ci_packed_size(int groups, int out_channels, int in_channels, int taps) {
  const int columns = ci::best_isa()->columns;
  const int64_t panels = (out_channels + columns - 1) / columns;
  return groups * panels * columns * padded_depth(taps, in_channels);
}

// weight: [groups * out_channels][in_channels][taps] -> packed: [groups][panels][depth][columns], zero padded.
void ci_pack_weight(const float* weight, float* packed, int groups, int out_channels, int in_channels, int taps) {
  const int columns = ci::best_isa()->columns;
  const int panels = (out_channels + columns - 1) / columns;
  const int64_t depth = padded_depth(taps, in_channels);
  std::memset(packed, 0, sizeof(float) * ci_packed_size(groups, out_channels, in_channels, taps));
  for (int group = 0; group < groups; ++group)
    for (int n = 0; n < out_channels; ++n)
      for (int c = 0; c < in_channels; ++c)
        for (int tap = 0; tap < taps; ++tap) {
          const int64_t panel = int64_t(group) * panels + n / columns;
          packed[(panel * depth + tap * in_channels + c) * columns + n % columns] =
              weight[((int64_t(group) * out_channels + n) * in_channels + c) * taps + tap];
        }
}

// Runs one kernel: for tests and for measuring. instruction_set: null: the best one.
int ci_run_kernel(ci_threads* threads, const char* instruction_set, int kernel, const void* params, const int32_t* rows,
                  const int32_t* to, int count, float* out, int64_t pitch) {
  const ci::Isa* isa = instruction_set ? ci::isa_named(instruction_set) : ci::best_isa();
  if (!isa || kernel < 0 || kernel >= CI_KERNELS) return CI_NONSENSE;
  return ci::attempted([&] { isa->kernels[kernel](threads, params, ci_rows{rows, to, count}, out, pitch); });
}
}
