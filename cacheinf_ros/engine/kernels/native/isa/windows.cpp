// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Pooling and depthwise convolution.
#include "windows.h"

namespace CI_ISA {
namespace {

template <class V>
struct Depthwise : WindowOperator<ci_conv, V, Vector, V> {
  using WindowOperator<ci_conv, V, Vector, V>::p;
  using WindowOperator<ci_conv, V, Vector, V>::out;
  const bool simple = !p.residual && only_bounds(p.activation);
  const Bounds bounds = bounds_of(p.activation);

  Vector start(const Taps&, int64_t k, int width) const { return load_part(p.bias + k, width); }
  Vector weight(int64_t at, int width) const { return load_part(p.weight + at, width); }
  static Vector add(Vector sum, const V* values, int width, Vector weight) {
    return sum + load_part(values, width) * weight;
  }
  void store_simple(int64_t at, int64_t, Vector sum, const Taps&, int width) const {
    store_part(out + at, bounds.of(sum), width);
  }
  Vector finished(const Pixel<V>& pixel, Vector sum, int64_t k, int width) const {
    if (!p.residual) return activate(p.activation, sum, k, width);
    const Vector residual = load_part(values_of<V>(p.residual) + pixel.row * p.residual_pitch + k, width);
    return p.residual_last ? activate(p.activation, sum, k, width) + residual
                           : activate(p.activation, sum + residual, k, width);
  }
  void store(const Pixel<V>& pixel, Vector sum, int64_t k, int width) const {
    store_part(out + pixel.out + k, finished(pixel, sum, k, width), width);
  }
};

template <class V>
struct Maximum : PoolOf<V, Vector, V> {
  static Vector start(const Taps&, int64_t, int) { return all(-__builtin_inff()); }
  static Vector add(Vector sum, const V* values, int width, Vector) { return largest(sum, load_part(values, width)); }
  void store_simple(int64_t at, int64_t, Vector sum, const Taps&, int width) const {
    store_part(this->out + at, sum, width);
  }
};

template <class V>
struct Average : PoolOf<V, Vector, V> {
  static Vector start(const Taps&, int64_t, int) { return Vector{}; }
  static Vector add(Vector sum, const V* values, int width, Vector) { return sum + load_part(values, width); }
  float factor(const Inside& y, const Inside& x) const { return 1.0f / averaged_pixels(this->p, y, x); }
  void store_simple(int64_t at, int64_t, Vector sum, const Taps& taps, int width) const {
    store_part(this->out + at, sum * taps.factor, width);
  }
};

}  // namespace

template <class Value>
void pool(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_pool& p = *static_cast<const ci_pool*>(params);
  Value* const to = values_of<Value>(out);
  if (p.average) compute_all(Average<Value>{{{p, to}}}, threads, rows, pitch);
  else compute_all(Maximum<Value>{{{p, to}}}, threads, rows, pitch);
}

// groups == channels, one filter each; weight: float [taps][channels].
template <class Value>
void depthwise(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  compute_all(Depthwise<Value>{{*static_cast<const ci_conv*>(params), values_of<Value>(out)}}, threads, rows, pitch);
}

CI_INSTANTIATE(pool);
CI_INSTANTIATE(depthwise);

}  // namespace CI_ISA
