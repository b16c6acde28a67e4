// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Sums of products of bytes.
#pragma once

#include "vectors.h"

namespace CI_ISA {
namespace {

// Adds the products of four levels, the same in all lanes, with four weights per lane. In assembler: the rest of the
// file is compiled for processors without these instructions.
struct Vnni {
#if defined(__AVX512F__)
  static constexpr int kRows = 14;  // of a register tile: 28 of 32 registers hold sums
  static Bits add(Bits sum, Bits levels, Bits weights) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(levels), "v"(weights));
    return sum;
  }
#elif defined(__AVX2__)
  static constexpr int kRows = 6;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(levels), "x"(weights));
    return sum;
  }
#else
  static Bits add(Bits sum, Bits, Bits) { return sum; }  // never called: has_vnni says so
#endif
};

inline bool processor_has_vnni() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512vnni");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avxvnni");
#else
  return false;
#endif
}

}  // namespace
}  // namespace CI_ISA
