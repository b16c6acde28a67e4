// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// The exponential function. The polynomial is from Cephes (S. Moshier).
#pragma once

#include "vectors.h"

namespace CI_ISA {

// (exp(x) - 1 - x) / x**2 for |x| <= log(2) / 2.
inline Vector exponential_beyond_linear(Vector x) {
  Vector p = x * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * x + 8.3334519073e-3f;
  p = p * x + 4.1665795894e-2f;
  p = p * x + 1.6666665459e-1f;
  return p * x + 5.0000001201e-1f;
}

// p * 2**n for a whole number n.
inline Vector scaled_by_power_of_two(Vector p, Vector n) {
#if defined(__AVX512F__)
  return (Vector)_mm512_maskz_scalef_ps(kAll, (__m512)p, (__m512)n);
#else
  const Bits whole = __builtin_convertvector(n, Bits), half = whole >> 1;  // 2**n alone may be out of range
  return p * (Vector)((half + 127) << 23) * (Vector)((whole - half + 127) << 23);
#endif
}

// 0 and infinity where the result is too small or too large for a float; NaN of NaN.
inline Vector exponential(Vector x) {
  x = smallest(all(89.0f), largest(all(-104.0f), x));
  const Vector n = x * 1.44269504f + 12582912.0f - 12582912.0f;  // rounded: 1.5 * 2**23 leaves no room for a fraction
  const Vector rest = x - n * 0.693359375f + n * 2.12194440e-4f;
  return scaled_by_power_of_two(1.0f + rest + rest * rest * exponential_beyond_linear(rest), n);
}

}  // namespace CI_ISA
