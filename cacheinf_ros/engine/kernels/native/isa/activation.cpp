// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Activations, accurate to a few units in the last place. Polynomials are from Cephes (S. Moshier), where not said
// otherwise.
#include "exponential.h"

namespace CI_ISA {
namespace {

inline Vector absolute(Vector x) { return (Vector)((Bits)x & 0x7fffffff); }
inline Vector with_sign_of(Vector x, Vector sign) { return (Vector)((Bits)x | ((Bits)sign & INT32_MIN)); }

inline Vector exponential_minus_one(Vector x) {
  const Vector near = x + x * x * exponential_beyond_linear(x);
  return absolute(x) < 0.34f ? near : exponential(x) - 1.0f;
}

inline Vector sigmoid(Vector x) { return 1.0f / (1.0f + exponential(-x)); }

inline Vector hyperbolic_tangent(Vector x) {
  const Vector size = absolute(x), square = x * x;
  Vector p = square * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const Vector far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  return size < 0.625f ? x + x * square * p : with_sign_of(far, x);
}

// Polynomials by N. Juffa (public domain).
inline Vector error_function(Vector x) {
  const Vector size = smallest(all(4.0f), absolute(x)), square = size * size;
  Vector near = square * -5.96761703e-4f + 4.99119423e-3f;
  near = near * square - 2.67681349e-2f;
  near = near * square + 1.12819925e-1f;
  near = near * square - 3.76125336e-1f;
  near = near * square + 1.28379166e-1f;
  Vector far = size * -1.72853470e-5f + 3.83197126e-4f;
  far = far * square + (size * -3.88396438e-3f + 2.42546219e-2f);
  far = far * size - 1.06777877e-1f;
  far = far * size - 6.34846687e-1f;
  far = far * size - 1.28717512e-1f;
  far = 1.0f - exponential(far * size - size);
  return size < 0.927734375f ? x + x * near : with_sign_of(far, x);
}

// log(1 + exp(x)), as max(x, 0) + log(1 + t) with t = exp(-|x|), log(1 + t) = 2 artanh(t / (2 + t)) by its series.
inline Vector softplus(Vector x) {
  const Vector t = exponential(-absolute(x)), s = t / (2.0f + t), square = s * s;
  Vector p = square * (2.0f / 15) + 2.0f / 13;
  p = p * square + 2.0f / 11;
  p = p * square + 2.0f / 9;
  p = p * square + 2.0f / 7;
  p = p * square + 2.0f / 5;
  p = p * square + 2.0f / 3;
  return largest(all(0), x) + (s * square * p + 2.0f * s);
}

// x * tanh(softplus(x)), with e = exp(x): x * (e**2 + 2e) / (e**2 + 2e + 2).
inline Vector mish(Vector x) {
  const Vector e = exponential(smallest(all(20.0f), x)), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}

// x * (1 + tanh(k * (x + 0.044715 * x**3))) / 2, k = sqrt(2 / pi); (1 + tanh(z)) / 2 is sigmoid(2z).
inline Vector gelu_tanh(Vector x) {
  return x / (1.0f + exponential(-1.5957691216f * (x + 0.044715f * x * x * x)));
}

}  // namespace

Vector activate_curved(const ci_activation& a, Vector v) {
  const auto six = [](Vector x) { return smallest(all(6), largest(all(0), x + 3.0f)); };
  switch (a.kind) {
    case CI_SIGMOID: return sigmoid(v);
    case CI_TANH: return hyperbolic_tangent(v);
    case CI_SILU: return v / (1.0f + exponential(-v));
    case CI_HARDSIGMOID: return six(v) * (1.0f / 6);
    case CI_HARDSWISH: return v * six(v) * (1.0f / 6);
    case CI_GELU: return 0.5f * v * (1.0f + error_function(v * 0.70710678f));
    case CI_GELU_TANH: return gelu_tanh(v);
    case CI_ELU: return v > 0 ? v : a.alpha * exponential_minus_one(v);
    case CI_SOFTPLUS: return softplus(v);
    case CI_MISH: return mish(v);
    default: return v;
  }
}

}  // namespace CI_ISA
