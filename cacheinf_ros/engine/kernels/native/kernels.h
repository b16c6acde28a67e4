// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Row-sparse kernels: feature maps are rows of channels, one row per pixel (NHWC), and only listed rows are computed.
//
// The plain C structures and constants are mirrored in ../abi.py, which compares them with layout.cpp when the library is
// loaded. Pitches are in values; a pitch may exceed the channels, where a map is part of a concatenated one.
//
// Values are floats, bfloat16 (uint16_t, the upper half of a float), or levels: uint8_t that stand for (level - zero) *
// scale. Structures of operators on levels end in _int8; where they hold the structure of the same operator on floats, its
// pointers to maps are to levels. In bfloat16 the structures are those of floats, and what points to maps points to
// bfloat16; biases, weights of depthwise convolutions and other parameters stay floats.
#pragma once

#include <cstdint>
#include <new>

extern "C" {

// Geometry of a sliding window over an image; y before x.
struct ci_window {
  int32_t in_height, in_width, out_height, out_width;
  int32_t kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
};

// As in graph/activation.py, in the same order.
enum ci_activation_kind : int32_t {
  CI_LINEAR, CI_CLAMP, CI_PRELU, CI_SIGMOID, CI_TANH, CI_SILU, CI_HARDSIGMOID, CI_HARDSWISH, CI_GELU, CI_GELU_TANH,
  CI_ELU, CI_SOFTPLUS, CI_MISH
};

struct ci_activation {
  int32_t kind;
  float low, high, alpha;
  const float* slope;  // of CI_PRELU, per channel
};

struct ci_conv {  // also of CI_DEPTHWISE, whose weights are laid out differently
  ci_window window;
  int32_t groups, in_channels, out_channels;  // channels per group
  int32_t residual_last;                      // residual after the activation instead of before
  ci_activation activation;
  int64_t in_pitch, residual_pitch;
  const float* in;
  const float* weight;    // of CI_CONV_BFLOAT16 packed uint16_t: see isa/conv_runs.h; of _TILES isa/conv_tiles.h
  const float* bias;      // [groups * out_channels]
  const float* residual;  // may be null
  int32_t whole_lines;    // of CI_CONV_BFLOAT16: as of ci_conv_int8
  int32_t writes_floats;  // of CI_CONV_BFLOAT16: whether the result consists of floats
};

struct ci_pool {
  ci_window window;
  int32_t channels;
  int32_t average;        // 0: maximum
  int32_t count_padding;  // average: divide by the window's area even where it overlaps the padding
  int32_t reserved;
  int64_t in_pitch;
  const float* in;
};

enum ci_combine : int32_t { CI_FIRST, CI_ADD, CI_SUB, CI_MUL, CI_DIV, CI_MAXIMUM, CI_MINIMUM };

struct ci_elementwise {  // activation((a combined with b) * scale + shift)
  int32_t combine, channels;
  ci_activation activation;
  int64_t a_pitch, b_pitch;  // b_pitch 0: one row of b goes with every row of a
  const float* a;
  const float* b;      // null with CI_FIRST
  const float* scale;  // [channels], may be null: 1
  const float* shift;  // [channels], may be null: 0
};

struct ci_channel_norm {
  int32_t channels;
  float epsilon;
  int64_t in_pitch;
  const float* in;
  const float* weight;  // [channels]
  const float* bias;    // [channels]
};

struct ci_channel_softmax {
  int32_t channels, log;
  int64_t in_pitch;
  const float* in;
};

struct ci_resample {  // index: -1 outside; tables are [out_height][taps_y] and [out_width][taps_x]
  int32_t channels, in_width, out_width, taps_y, taps_x;
  float fill;  // where a single tap lies outside
  int64_t in_pitch;
  const float* in;
  const int32_t *index_y, *index_x;
  const float *weight_y, *weight_x;
};

struct ci_pixel_shuffle {
  int32_t channels, out_width, factor;  // channels of the output
  int32_t phase_major;
  int64_t in_pitch;
  const float* in;
};

struct ci_select {
  int32_t channels, reserved;
  int64_t in_pitch;
  const float* in;
  const int32_t* index;  // [channels] of the input; null: the first ones, a plain copy
};

struct ci_global_mean {
  int32_t channels, pixels;
  int64_t in_pitch;
  const float* in;
};

// What the values of a map stand for. scale 0: they are floats.
struct ci_levels {
  float scale;
  int32_t zero;
};

struct ci_conv_int8 {  // also of CI_DEPTHWISE_INT8
  ci_window window;
  int32_t groups, in_channels, out_channels;  // channels per group
  int32_t residual_last;
  ci_activation activation;  // bounds of a clamp are in units of the result
  int64_t in_pitch, residual_pitch;
  const uint8_t* in;
  const int8_t* weight;     // packed as of ci_conv; of CI_DEPTHWISE_INT8 int32_t: [taps][channels]
  const int32_t* bias;      // [groups * out_channels], added to the sums of products
  const float* multiplier;  // [groups * out_channels], from sums to units of the result
  const uint8_t* residual;  // may be null
  float unit;               // of the result: its scale, or 1
  float residual_factor;    // from levels to units of the result
  int32_t residual_zero, in_zero;
  ci_levels out;
  int32_t whole_lines;      // whether the taps of a line of the window lie behind one another, in the input as in weights
  int32_t reserved;
};

struct ci_pool_int8 {  // of a maximum, output and input stand for the same
  ci_pool pool;
  float factor;  // from levels of the input to those of the output
  int32_t in_zero, out_zero, reserved;
};

struct ci_elementwise_int8 {
  ci_elementwise elementwise;
  ci_levels a, b, out;
};

struct ci_resample_int8 {
  ci_resample resample;
  float factor;
  int32_t in_zero, out_zero, fill;  // fill: a level
};

struct ci_global_mean_int8 {
  ci_global_mean mean;
  ci_levels in, out;
};

struct ci_convert {  // from floats to levels, or back, or from levels to others
  int32_t channels, reserved;
  int64_t in_pitch;
  const void* in;
  ci_levels from, to;
};

// Which kernel a parameter structure is for.
enum ci_kernel : int32_t {
  CI_CONV, CI_CONV_IN_PLACE, CI_DEPTHWISE, CI_POOL, CI_ELEMENTWISE, CI_CHANNEL_NORM, CI_CHANNEL_SOFTMAX, CI_RESAMPLE,
  CI_PIXEL_SHUFFLE, CI_SELECT, CI_GLOBAL_MEAN, CI_CONV_BFLOAT16, CI_CONV_BFLOAT16_WIDENED, CI_DEPTHWISE_BFLOAT16,
  CI_POOL_BFLOAT16, CI_ELEMENTWISE_BFLOAT16, CI_CHANNEL_NORM_BFLOAT16, CI_RESAMPLE_BFLOAT16, CI_PIXEL_SHUFFLE_BFLOAT16,
  CI_SELECT_BFLOAT16, CI_GLOBAL_MEAN_BFLOAT16, CI_WIDEN, CI_NARROW, CI_CONV_INT8, CI_CONV_INT8_PAIRS,
  CI_DEPTHWISE_INT8, CI_POOL_INT8, CI_ELEMENTWISE_INT8, CI_RESAMPLE_INT8, CI_PIXEL_SHUFFLE_INT8, CI_SELECT_INT8,
  CI_GLOBAL_MEAN_INT8, CI_CONVERT, CI_CONV_BFLOAT16_TILES, CI_CONV_INT8_TILES, CI_KERNELS
};

constexpr int CI_TILE_QUADS = 16;  // of 4 bytes: of a row of a matrix tile

// Into how many equal steps matrix tiles divide a run of so many values, of which `together` are 4 bytes; see
// isa/conv_tiles.h. No step reaches beyond the run, unless the run is shorter than 4 bytes.
int ci_tile_steps(int values, int together);

// What came of a call.
enum ci_status : int32_t {
  CI_DONE,
  CI_NO_MEMORY,
  CI_NONSENSE  // a step or kernel that there is not, or an error nobody has thought of
};

struct ci_threads;  // a pool of threads, owned by one engine

// The pixels to compute, in row-major order, and where each is written.
struct ci_rows {
  const int32_t* rows;
  const int32_t* to;  // the same as rows; or 0, 1, 2, ...: behind one another
  int32_t count;
};

// An active set: pixels of a map.
struct ci_set {
  uint8_t* mask;       // [height][width], 0 or 1
  int32_t* listed;     // room for [height * width + 8]: the active pixels in row-major order, unless all are
  const int32_t* all;  // 0, 1, 2, ...
  int32_t height, width, count, reserved;
};

// Sides of an image beside which its padding counts as changed; may be added up.
enum ci_border : int32_t { CI_LEFT = 1, CI_RIGHT = 2, CI_TOP = 4, CI_BOTTOM = 8 };

// Which pixels of the input each output pixel reads, for operators that are not windows. -1: outside, on the left or
// above; -2: on the right or below.
struct ci_tap_table {
  int32_t taps_y, taps_x;
  const int32_t *index_y, *index_x;  // [out_height][taps_y], [out_width][taps_x]
};

enum ci_criterion : int32_t {
  CI_MAXIMUM_CHANGE,  // largest over channels of weight * |change|
  CI_SUM_OF_SQUARES,  // over channels, of weight * change**2
  CI_POOLED_SQUARES   // the same, averaged over neighbours
};

enum ci_step_kind : int32_t {
  CI_PROPAGATE_WINDOW,     // target: the outputs of a ci_window that depend on an active pixel of first
  CI_PROPAGATE_TAPS,  // the same of a ci_tap_table
  CI_UNION,                // target: first and second
  CI_DIFFERENCE,           // target: first without second
  CI_FILL_IF_ANY,          // target: everything if first has any pixel or padding changed, otherwise nothing
  CI_COMPUTE,              // runs a kernel on first's active pixels; target: those whose value changed, if it is given;
                           // second: of which first is a part, if it is given; where it is empty, nothing is computed
  CI_LOCAL_ROWS,           // target: of a ci_replica's local rows first, and what is stale
  CI_FORWARD,              // target: of a ci_replica's local rows first, elsewhere second
  CI_NOTHING               // left to somebody else
};

// A tensor that two machines compute together, as one of them sees it.
struct ci_replica {
  int32_t first_row, last_row;  // that this machine computes: the first, and the one behind the last
  uint8_t* stale_local;         // [height][width], 1 where this machine's copy may be out of date
  uint8_t* stale_remote;        // the same of the other's copy
};

// One step of a program. What does not apply is null.
struct ci_step {
  int32_t kind, kernel;
  const void* params;  // ci_window, ci_tap_table, ci_replica or the kernel's
  const ci_set *first, *second;
  ci_set* target;
  float* out;  // of CI_COMPUTE
  int64_t pitch;
  int32_t channels, criterion;
  float threshold;      // a change up to it is not passed on: the old value stays
  int32_t alternative;  // of CI_COMPUTE: the kernel for many pixels
  const float* weight;  // [channels] of the criterion, null: 1
  const void* alternative_params;
  int32_t alternative_from;  // active pixels from which on it is used
  int32_t inwards;           // of propagation: from outputs to inputs, no border counts
  int32_t value_bytes;       // of CI_COMPUTE: of what `out` consists of: 4, floats; 2, bfloat16; 1, levels
  int32_t reserved;
};

// A map of its own, and by how many pixels it moves right and down.
struct ci_shift {
  void* pixels;  // [height * width][channels], behind one another
  int32_t height, width, channels, dx, dy, value_bytes;
};

// The model's input, from pixels of 8 bits.
struct ci_input {
  int32_t height, width;
  int32_t order[3];        // channel of the image for each channel of the input
  float threshold;         // as of a step, for CI_SUM_OF_SQUARES
  float weight[3];
  int32_t value_bytes;     // of the input map: as of a step
  const float* table;      // [3][256]: value of each brightness, per channel of the input
  const void* kept;        // [3][256]: the same as the input map holds them, unless it holds floats
  uint8_t* composed;       // [height][width][3]: what the cache stands for
  uint8_t* seen;           // [height][width][3]: what the input map holds
  void* out;               // the input map
  int64_t pitch;
};

// How a frame is seen in the place of the input.
struct ci_view {
  double to_frame[9], back[9];  // input -> frame, and back, in pixels
  const uint8_t* marked;        // [height][width] of the frame, 0 or 1: what counts
  uint8_t* unseen;              // [height][width] of the input: what is painted in any case, until the frame shows it;
                                // null: nothing
  uint8_t* tiles;               // room for one per 8 x 8 pixels
};
}

namespace ci {

// A function that runs one task of a parallel loop; worker: 0 .. threads - 1.
using Task = void (*)(void* context, int task, int worker);
void parallel_for(ci_threads* threads, int tasks, Task run, void* context);  // throws std::bad_alloc where a task did
int thread_count(const ci_threads* threads);
// While a program runs, workers spin between its loops, off the caller's processor: to wake one up may take longer than
// the loop.
void keep_awake(ci_threads* threads, bool awake);
// 64-byte aligned, kept between calls; throws std::bad_alloc.
float* scratch(ci_threads* threads, int worker, int64_t floats);

// While it lives, this thread takes denormal numbers for zero, in what it reads and what it writes. Trained weights may
// hold thousands of them, in channels that died, and processors take a hundred times as long for each.
class DenormalsAreZero {
 public:
  DenormalsAreZero();
  ~DenormalsAreZero();
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
  uint64_t before_;  // the processor's control register
};

// Calls a function such that nothing it throws crosses the C interface; a ci_status. Denormal numbers are zero in it.
template <class Function>
int attempted(Function&& function) noexcept {
  const DenormalsAreZero denormals_are_zero;
  try {
    function();
    return CI_DONE;
  } catch (const std::bad_alloc&) {
    return CI_NO_MEMORY;
  } catch (...) {
    return CI_NONSENSE;
  }
}

// Computes the listed rows of `params`' operator into out, row to[i] at out + to[i] * pitch; where the result consists
// of levels or of bfloat16, out is a pointer to them.
using Kernel = void (*)(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch);

// Sets that are empty, or full.
void clear(ci_set& set);
void fill(ci_set& set);
inline bool is_full(const ci_set& set) { return set.count == set.height * set.width; }
inline const int32_t* rows_of(const ci_set& set) { return is_full(set) ? set.all : set.listed; }

constexpr int kPoolRadius = 2;  // pixels; as POOLING in engine/delta_threshold.py

// What is compiled once per instruction set.
struct Isa {
  const char* name;
  int columns;  // of the convolution's register tile
  bool has_bfloat16;  // a CI_CONV_BFLOAT16, for processors that have the instructions
  bool has_byte_dot;  // a CI_CONV_INT8, for processors that have the instructions
  Kernel kernels[CI_KERNELS];
  void (*propagate_window)(const ci_window& window, const ci_set& from, ci_set& to, int outside, uint8_t* scratch);
  void (*propagate_taps)(const ci_tap_table& table, const ci_set& from, ci_set& to, int outside, uint8_t* scratch);
  void (*unite)(const ci_set& first, const ci_set& second, ci_set& to);
  void (*subtract)(const ci_set& first, const ci_set& second, ci_set& to);
  void (*list)(ci_set& set);  // the pixels that the mask holds
  // For CI_POOLED_SQUARES: notes how much `count` computed rows (behind one another, as in the map) differ from the
  // step's map. squares: [height + 2 * kPoolRadius][width + 2 * kPoolRadius].
  void (*measure)(ci_threads* threads, const ci_step& step, const void* computed, const int32_t* rows, int count,
                  float* squares);
  // Copies those of `count` computed rows into the step's map that differ enough from it; says which.
  // squares: for CI_POOLED_SQUARES, where these and all their neighbours were measured.
  void (*commit)(ci_threads* threads, const ci_step& step, const void* computed, const int32_t* rows, int count,
                 const float* squares, uint8_t* changed);
  void (*write_input)(ci_threads* threads, const ci_input& input, const uint8_t* image, const ci_set& touched,
                      ci_set& changed, bool all);
  void (*paint_input)(ci_threads* threads, const ci_input& input, const uint8_t* image, const ci_view& view,
                      ci_set& changed, bool all);
};
const Isa* isa_base();
#if defined(__x86_64__)
const Isa* isa_avx2();
const Isa* isa_avx512();
#elif defined(__aarch64__)
const Isa* isa_dotprod();
const Isa* isa_i8mm();
#endif
const Isa* best_isa();  // that this machine runs
const Isa* isa_named(const char* name);  // null where this machine does not run it

}  // namespace ci
