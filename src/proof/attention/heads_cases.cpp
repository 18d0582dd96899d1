// Cases of `heads`: norms, rotation and cache against f64, with angles from the frequencies, not from the table.
#include <algorithm>

#include "base/rope_frequencies.h"
#include "kernels/attention/heads.h"
#include "proof/attention/attention_problem.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::Heads;

struct HeadsShape {
  uint32_t rows = 3, heads = 4, kv_heads = 2, head = 64, value_head = 64;
  uint32_t dimensions = 64;
  bool fused = false;  // q, k and v are parts of one row
  uint32_t page_size = 16, sequences = 2, last_position = 40;
  float size = 1;  // of the values; 1e5: many are beyond f16
  float magnitude = 1;
  bool k_bias = true;     // with `bias`
  float largest = 0.75f;  // with `clamp`

  std::string text() const {
    return fmt::format(
        "rows={} heads={}/{} of {}/{} dimensions={} fused={} pages={} sequences={} last={} size={} m={} k_bias={}",
        rows, heads, kv_heads, head, value_head, dimensions, fused, page_size, sequences, last_position, size,
        magnitude, k_bias);
  }
};

// Values and how large their rounding errors may be.
struct Numbers {
  std::vector<double> value, error;
};

// One row's heads after norm and rotation.
struct Reference {
  const Heads& spec;
  const HeadsShape& s;
  const RopeFrequencies& frequencies;

  Numbers row(const float* x, uint32_t heads, uint32_t kind, const std::vector<float>& weight,
              const std::vector<float>& bias, float epsilon, uint32_t position) const {
    Numbers y{std::vector<double>(x, x + size_t(heads) * s.head), std::vector<double>(size_t(heads) * s.head)};
    const uint32_t span = spec.over == Heads::all_heads ? heads * s.head : s.head;
    auto turn_all = [&] {
      for (uint32_t h = 0; h < heads && spec.rotation != Heads::none; ++h) turn(y, h * s.head, position);
    };
    const bool last = spec.norm_last && kind != kernels::norm_none;
    if (last) turn_all();
    for (uint32_t at = 0; at < heads * s.head && kind != kernels::norm_none; at += span)
      normalise(y, at, span, kind, weight, bias, epsilon);
    for (double& v : y.value) v = given(v);
    if (!last) turn_all();
    return y;
  }
  // Values: of each head, with one weight for all and no bias.
  Numbers values(const float* x, uint32_t heads, uint32_t kind, const std::vector<float>& weight, float epsilon) const {
    Numbers y{std::vector<double>(x, x + size_t(heads) * s.value_head),
              std::vector<double>(size_t(heads) * s.value_head)};
    Heads plain = spec;
    plain.over = Heads::each_head;
    plain.bias = plain.norm_last = 0;
    for (uint32_t at = 0; at < heads * s.value_head && kind != kernels::norm_none; at += s.value_head)
      Reference{plain, s, frequencies}.normalise(y, at, s.value_head, kind, weight, {}, epsilon);
    for (double& v : y.value) v = given(v);
    return y;
  }
  double given(double v) const { return spec.clamp ? std::clamp(v, -double(s.largest), double(s.largest)) : v; }
  // q times a factor.
  void heat(Numbers& y, uint32_t position) const {
    if (!spec.temperature) return;
    const double factor = 1 + temperature * std::log(1 + std::floor(double(position + offset) / length));
    for (size_t i = 0; i < y.value.size(); ++i) {
      y.value[i] *= factor;
      y.error[i] = y.error[i] * factor + std::abs(y.value[i]) * 5e-7;  // the logarithm to 2^-22 of 1 and more
    }
  }
  static constexpr double temperature = 0.375;
  static constexpr uint32_t length = 3, offset = 1;

 private:
  void normalise(Numbers& y, uint32_t at, uint32_t span, uint32_t kind, const std::vector<float>& weight,
                 const std::vector<float>& bias, float epsilon) const {
    double mean = 0, squares = 0;
    if (kind == kernels::norm_layer)
      for (uint32_t i = 0; i < span; ++i) mean += y.value[at + i] / span;
    for (uint32_t i = 0; i < span; ++i) squares += (y.value[at + i] - mean) * (y.value[at + i] - mean);
    const double scale = 1 / std::sqrt(squares / span + double(epsilon)), spread = std::sqrt(squares / span);
    // half the sum's error (a lane's additions, 5 in the warp, 8 warps), then part, epsilon, root and products
    const double bound = ((span / 32.0 + 13) / 2 + 9) * 0x1p-24;
    const double moved = *std::max_element(y.error.begin() + at, y.error.begin() + at + span);
    for (uint32_t i = 0; i < span; ++i) {
      const size_t of_weight = spec.over == Heads::each_head ? i : at + i;
      const double w = weight[of_weight], b = spec.bias ? bias[of_weight] : 0.0, d = y.value[at + i] - mean;
      y.value[at + i] = d * scale * w + b;
      // close to the mean a value has the error of the mean, which follows the spread
      const double size = std::abs(d) + (kind == kernels::norm_layer ? spread + std::abs(mean) * 0x1p-20 : 0);
      // what came before moves the value, and all of them the scale
      const double before = spec.norm_last ? 2 * moved * scale * std::abs(w) : 0;
      y.error[at + i] = (size * scale * std::abs(w) + std::abs(b)) * bound + before;
    }
  }
  void turn(Numbers& y, uint32_t at, uint32_t position) const {
    const uint32_t half = s.dimensions / 2;
    for (uint32_t i = 0; i < half; ++i) {
      const uint32_t first = at + (spec.rotation == Heads::pairs ? 2 * i : i);
      const uint32_t second = spec.rotation == Heads::pairs ? first + 1 : first + half;
      const double angle = position * frequencies.radians[i], m = s.magnitude;
      const double a = y.value[first], b = y.value[second];
      y.value[first] = (a * std::cos(angle) - b * std::sin(angle)) * m;
      y.value[second] = (a * std::sin(angle) + b * std::cos(angle)) * m;
      // sine and cosine to 1.5e-7, the magnitude, two products and a sum to 2^-24 each
      const double more = (std::abs(a) + std::abs(b)) * m * (1.5e-7 + 3 * 0x1p-24);
      y.error[first] = y.error[second] = (y.error[first] + y.error[second]) * m + more;
    }
  }
};

// Positions that no two rows of a sequence share; the first row has the last one, the fifth is not in use.
std::vector<uint32_t> pick_positions(Random& random, const HeadsShape& s, const std::vector<uint32_t>& sequences) {
  std::vector<uint32_t> positions(s.rows);
  std::map<std::pair<uint32_t, uint32_t>, bool> taken;
  for (uint32_t r = 0; r < s.rows; ++r) {
    uint32_t p = r == 0 ? s.last_position : random.below(s.last_position + 1);
    while (taken[{sequences[r], p}]) p = (p + 1) % (s.last_position + 1);
    taken[{sequences[r], p}] = true;
    positions[r] = r == 4 ? ~0u : p;
  }
  return positions;
}

Case heads_case(Heads spec, HeadsShape s) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    RopeFrequencies frequencies = s.dimensions ? rope_frequencies(s.dimensions, 10000) : RopeFrequencies{};
    std::vector<uint32_t> sequences(s.rows);
    for (uint32_t& x : sequences) x = random.below(s.sequences);
    const std::vector<uint32_t> positions = pick_positions(random, s, sequences);
    PageTable pages(s.sequences, s.last_position, s.page_size);
    for (uint32_t r = 0; r < s.rows; ++r)
      if (positions[r] != ~0u) pages.need(sequences[r], positions[r]);
    pages.place(random);

    const uint32_t q_size = s.heads * s.head, k_size = s.kv_heads * s.head, v_size = s.kv_heads * s.value_head;
    const uint32_t whole = q_size + k_size + v_size;
    // parts of one row, or each with a gap of its own
    const uint32_t q_stride = s.fused ? whole : q_size + 1, k_stride = s.fused ? whole : k_size + 3,
                   v_stride = s.fused                                ? whole
                              : spec.stores == Heads::keys_as_values ? k_stride
                                                                     : v_size;
    auto make = [&](size_t stride) { return random.normals(s.rows * stride, s.size); };
    const std::vector<float> q = make(q_stride), k_own = make(k_stride), v_own = make(v_stride);
    const bool as_keys = spec.stores == Heads::keys_as_values, nothing = spec.stores == Heads::nothing;
    const float *k = s.fused ? q.data() + q_size : k_own.data(), *v = s.fused ? k + k_size : v_own.data();
    if (as_keys) v = k;
    const size_t weights = spec.over == Heads::each_head ? s.head : q_size;
    const size_t k_weights = spec.over == Heads::each_head ? s.head : k_size;
    const std::vector<float> q_weight = random.normals(weights), q_bias = random.normals(weights);
    const std::vector<float> k_weight = random.normals(k_weights),
                             k_bias = random.normals(k_weights, s.k_bias ? 1.0f : 0.0f);
    const std::vector<float> v_weight = random.normals(s.value_head);
    const std::vector<f16> k_before(pages.rows(s.kv_heads) * s.head, f16{0x5a5a}),
        v_before(pages.rows(s.kv_heads) * s.value_head, f16{0x5a5a});

    const auto q_at = m.put(q);
    auto part = [&](uint32_t offset) { return ptx::DevicePtr<float>{q_at.address + offset * sizeof(float)}; };
    Heads::Args args{.q = q_at,
                     .k = s.fused ? part(q_size) : m.put(k_own),
                     .v = s.fused ? part(q_size + k_size) : m.put(v_own),
                     .rows = s.rows,
                     .heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .head = s.head,
                     .value_head = s.value_head,
                     .q_stride = q_stride,
                     .k_stride = k_stride,
                     .v_stride = v_stride,
                     .dimensions = s.dimensions,
                     .page_size = s.page_size,
                     .table_stride = pages.stride(),
                     .q_epsilon = 1e-5f,
                     .k_epsilon = 1e-3f,
                     .magnitude = s.magnitude,
                     .largest = s.largest,
                     .temperature = float(Reference::temperature),
                     .length = Reference::length,
                     .offset = Reference::offset,
                     .v_epsilon = 1e-4f};
    if (as_keys) args.v = args.k;
    if (nothing) args.k = args.v = {};
    if (spec.v_norm) args.v_weight = m.put(v_weight);
    if (spec.q_norm) args.q_weight = m.put(q_weight);
    if (spec.k_norm) args.k_weight = m.put(k_weight);
    if (spec.q_norm && spec.bias) args.q_bias = m.put(q_bias);
    if (spec.k_norm && spec.bias && s.k_bias) args.k_bias = m.put(k_bias);
    if (spec.rotation != Heads::none) args.turns = m.put(frequencies.turns());
    args.positions = m.put(positions);
    args.sequences = m.put(sequences);
    args.table = m.put(pages.table());
    const size_t rows_of_cache = pages.rows(s.kv_heads);
    if (spec.kv == kernels::kv_q8) {
      const Q8Cache k_empty(rows_of_cache, s.head), v_empty(rows_of_cache, s.value_head);
      args.k_cache = {m.put(k_empty.q).address};
      args.v_cache = {m.put(v_empty.q).address};
      args.k_scale = m.put(k_empty.scales);
      args.v_scale = m.put(v_empty.scales);
    } else {
      args.k_cache = m.put(k_before);
      args.v_cache = m.put(v_before);
    }
    m.launch(spec, args);

    // values that are not set below stay as they were
    Numbers want_q{std::vector<double>(q.begin(), q.end()), std::vector<double>(q.size())};
    auto cache = [](const std::vector<f16>& before) {
      Numbers n{std::vector<double>(before.size(), to_f32(f16{0x5a5a})), std::vector<double>(before.size())};
      return n;
    };
    Numbers want_k = cache(k_before), want_v = cache(v_before);
    auto into = [&](Numbers& to, size_t row, uint32_t size, const double* value, const double* error) {
      for (uint32_t i = 0; i < size; ++i) {
        const double cut = std::clamp(value[i], -65504.0, 65504.0);
        to.value[row * size + i] = cut;
        to.error[row * size + i] = error[i] + std::abs(cut) * 0x1.01p-11 + 0x1.01p-25;  // rounding to f16
      }
    };
    Q8Cache k_got(0, s.head), v_got(0, s.value_head);
    auto read = [&](Q8Cache& to, auto bytes, auto scales) {
      to.q = m.get(ptx::DevicePtr<uint8_t>{bytes.address}, rows_of_cache * to.size);
      to.scales = m.get(scales, rows_of_cache * to.groups());
    };
    if (spec.kv == kernels::kv_q8) {
      read(k_got, args.k_cache, args.k_scale);
      read(v_got, args.v_cache, args.v_scale);
    }
    Q8Cache k_want(rows_of_cache, s.head), v_want(rows_of_cache, s.value_head);
    const Reference reference{spec, s, frequencies};
    for (size_t r = 0; r < s.rows; ++r) {
      if (positions[r] == ~0u) continue;
      Numbers made =
          reference.row(q.data() + r * q_stride, s.heads, spec.q_norm, q_weight, q_bias, args.q_epsilon, positions[r]);
      reference.heat(made, positions[r]);
      std::copy(made.value.begin(), made.value.end(), want_q.value.begin() + ptrdiff_t(r * q_stride));
      std::copy(made.error.begin(), made.error.end(), want_q.error.begin() + ptrdiff_t(r * q_stride));
      if (nothing) continue;
      const Numbers keys =
          reference.row(k + r * k_stride, s.kv_heads, spec.k_norm, k_weight, k_bias, args.k_epsilon, positions[r]);
      const Numbers values = reference.values(v + r * v_stride, s.kv_heads, spec.v_norm, v_weight, args.v_epsilon);
      const std::vector<float> values_given(values.value.begin(), values.value.end());
      for (uint32_t h = 0; h < s.kv_heads; ++h) {
        const size_t row = pages.row(sequences[r], positions[r], s.kv_heads, h);
        if (spec.kv == kernels::kv_q8) {
          // to the bit where values are as they were given
          if (spec.v_norm == kernels::norm_none) {
            v_want.encode(row, values_given.data() + h * s.value_head);
          } else {
            v_got.expect(check, row, &values.value[h * s.value_head], &values.error[h * s.value_head]);
            v_want.copy(row, v_got);
          }
          if (spec.k_norm == kernels::norm_none && spec.rotation == Heads::none && !spec.clamp) {
            k_want.encode(row, k + r * k_stride + h * s.head);
          } else {
            k_got.expect(check, row, &keys.value[h * s.head], &keys.error[h * s.head]);
            k_want.copy(row, k_got);
          }
          continue;
        }
        into(want_k, row, s.head, &keys.value[h * s.head], &keys.error[h * s.head]);
        into(want_v, row, s.value_head, &values.value[h * s.value_head], &values.error[h * s.value_head]);
      }
    }
    auto widened = [](const std::vector<f16>& x) {
      std::vector<float> y;
      for (f16 one : x) y.push_back(to_f32(one));
      return y;
    };
    std::vector<float> q_got = m.get(q_at, q.size());
    if (spec.kv == kernels::kv_q8 || spec.norm_last) {
      for (size_t i = 0; s.fused && i < q.size(); ++i)  // k lies behind q and is worked on where it is
        if (i % q_stride >= q_size && i % q_stride < q_size + k_size) q_got[i] = q[i];
    }
    if (spec.kv == kernels::kv_q8) {
      check.near("q", q_got, want_q.value, want_q.error, 1);
      check.equal("k", k_got.q, k_want.q);
      check.equal("scales of k", k_got.scales, k_want.scales);
      check.equal("v", v_got.q, v_want.q);
      check.equal("scales of v", v_got.scales, v_want.scales);
      return;
    }
    check.near("q", q_got, want_q.value, want_q.error, 1);
    check.near("k", widened(m.get(args.k_cache, k_before.size())), want_k.value, want_k.error, 1);
    check.near("v", widened(m.get(args.v_cache, v_before.size())), want_v.value, want_v.error, 1);
  };
  return {"heads", fmt::format("{} {}", field_text(spec), s.text()), target_of(spec), run};
}

// One row whose keys and values f16 cannot hold.
Case special_values() {
  const Heads spec{.rotation = Heads::none};
  auto run = [=](Machine& m, Random&, Check& check) {
    const std::vector<float> keys = beyond_f16(), values(keys.rbegin(), keys.rend());
    const uint32_t size = uint32_t(keys.size()), page = 16, position = 3;
    const std::vector<f16> before(page * size, f16{0x5a5a});
    Heads::Args args{.q = m.put(keys),
                     .k = m.put(keys),
                     .v = m.put(values),
                     .positions = m.put(std::vector<uint32_t>{position}),
                     .sequences = m.put(std::vector<uint32_t>{0}),
                     .table = m.put(std::vector<int32_t>{0}),
                     .k_cache = m.put(before),
                     .v_cache = m.put(before),
                     .rows = 1,
                     .heads = 1,
                     .kv_heads = 1,
                     .head = size,
                     .value_head = size,
                     .q_stride = size,
                     .k_stride = size,
                     .v_stride = size,
                     .page_size = page,
                     .table_stride = 1};
    m.launch(spec, args);
    auto expect = [&](const char* what, ptx::DevicePtr<f16> cache, const std::vector<float>& row) {
      std::vector<f16> want = before;
      std::ranges::copy(within_f16(row), want.begin() + position * size);
      check.equal(what, one_nan(m.get(cache, before.size())), want);
    };
    expect("k", args.k_cache, keys);
    expect("v", args.v_cache, values);
  };
  return {"heads", "NaN and infinities " + field_text(spec), target_of(spec), run};
}

}  // namespace

void add_heads_cases(Sweep sweep, std::vector<Case>& cases) {
  using kernels::norm_layer, kernels::norm_none, kernels::norm_rms;
  auto add = [&](const Heads& spec, const HeadsShape& shape) { cases.push_back(heads_case(spec, shape)); };
  add({.q_norm = norm_rms, .k_norm = norm_rms}, {});
  add({.q_norm = norm_layer, .k_norm = norm_layer, .over = Heads::all_heads, .bias = 1}, {.fused = true});
  if (sweep == Sweep::quick) return;

  cases.push_back(special_values());
  uint32_t turn = 0;  // so that each combination has some of everything
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    for (uint32_t over : {Heads::each_head, Heads::each_head_own, Heads::all_heads})
      for (uint32_t rotation : {Heads::none, Heads::pairs, Heads::halves}) {
        ++turn;
        add({.q_norm = norm,
             .k_norm = norm,
             .over = over,
             .bias = turn % 2,
             .rotation = rotation,
             .chained = turn / 2 % 2},
            {.rows = 6,
             .heads = 6,
             .kv_heads = 3,
             .head = 37,
             .value_head = 50,
             .dimensions = rotation == Heads::none ? 0u : 22u,
             .fused = turn % 3 == 0,
             .page_size = 5,
             .magnitude = 1.25f});
      }
  // clamped, norms after the rotation, a factor of q
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    for (uint32_t over : {Heads::each_head, Heads::each_head_own, Heads::all_heads})
      for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
        ++turn;
        add({.q_norm = norm,
             .k_norm = turn % 5 ? norm : norm_none,
             .over = over,
             .bias = turn % 2,
             .rotation = turn % 3            ? Heads::halves
                         : norm == norm_none ? Heads::none
                                             : Heads::pairs,
             .norm_last = turn % 4 != 0,
             .clamp = turn % 3 != 1,
             .temperature = turn % 3 != 2,
             .kv = kv,
             .chained = turn / 2 % 2},
            {.rows = 6,
             .heads = 6,
             .kv_heads = 3,
             .head = 64,
             .value_head = 32,
             .dimensions = turn % 3 == 0 && norm == norm_none ? 0u : 22u,
             .fused = turn % 2 == 0,
             .page_size = 5,
             .magnitude = 1.25f});
      }
  add({.rotation = Heads::none, .temperature = 1}, {.rows = 5, .dimensions = 0, .last_position = 100'000});
  // one norm of the two, or different ones
  add({.q_norm = norm_rms, .over = Heads::all_heads}, {.rows = 5});
  add({.q_norm = norm_layer, .k_norm = norm_rms, .bias = 1}, {.rows = 5, .heads = 3, .kv_heads = 1});
  add({.q_norm = norm_layer, .k_norm = norm_layer, .bias = 1}, {.k_bias = false});
  for (uint32_t head : {1u, 2u, 3u, 512u})
    add({.q_norm = norm_rms, .k_norm = norm_rms, .rotation = head % 4 ? Heads::pairs : Heads::halves},
        {.rows = 2, .heads = 2, .kv_heads = 1, .head = head, .value_head = 513 - head, .dimensions = head / 2 * 2});
  add({}, {.rows = 4, .value_head = 1, .dimensions = 0});
  add({}, {.rows = 12, .heads = 1, .kv_heads = 1, .last_position = 1'000'000, .size = 1e5f});
  add({.rotation = Heads::pairs}, {.rows = 40,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head = 128,
                                   .dimensions = 128,
                                   .page_size = 64,
                                   .sequences = 1,
                                   .last_position = 1 << 20});
  turn = 0;
  for (uint32_t norm : {norm_none, norm_rms})
    for (uint32_t over : {Heads::each_head, Heads::all_heads})
      for (uint32_t rotation : {Heads::none, Heads::pairs, Heads::halves}) {
        ++turn;
        add({.q_norm = norm,
             .k_norm = norm,
             .over = over,
             .rotation = rotation,
             .kv = kernels::kv_q8,
             .chained = turn % 2},
            {.rows = 6,
             .heads = 6,
             .kv_heads = 3,
             .head = turn % 3 ? 96u : 32u,
             .value_head = 64,
             .dimensions = rotation == Heads::none ? 0u : 22u,
             .fused = turn % 3 == 0,
             .page_size = 5});
      }
  // groups that are shorter than 32
  for (uint32_t head : {1u, 7u, 31u, 33u, 80u, 112u, 511u})
    for (uint32_t over : {Heads::each_head, Heads::all_heads}) {
      const bool plain = over == Heads::each_head && head % 2;  // bits of k are compared too
      add({.q_norm = plain ? norm_none : norm_rms,
           .k_norm = plain ? norm_none : norm_rms,
           .over = over,
           .rotation = plain ? Heads::none : Heads::halves,
           .clamp = head == 31,
           .kv = kernels::kv_q8,
           .chained = head % 4 / 3},
          {.rows = 6,
           .heads = 6,
           .kv_heads = 3,
           .head = head,
           .value_head = 512 - head,
           .dimensions = plain ? 0u : head / 4 * 2,
           .fused = head == 80,
           .page_size = 5});
    }
  // norms of values, values that are keys, a cache that another layer has filled
  for (uint32_t stores : {Heads::keys_and_values, Heads::keys_as_values, Heads::nothing})
    for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8})
      for (uint32_t norm : {norm_none, norm_rms, norm_layer}) {
        ++turn;
        const uint32_t over = norm == norm_none && turn % 2 ? Heads::all_heads
                              : turn % 3                    ? Heads::each_head
                                                            : Heads::each_head_own;
        add({.q_norm = norm_rms,
             .k_norm = norm_rms,
             .v_norm = over == Heads::all_heads ? uint32_t(norm_none) : norm,
             .over = over,
             .bias = turn % 2,
             .rotation = turn % 4 ? Heads::halves : Heads::pairs,
             .norm_last = turn % 5 == 0,
             .clamp = turn % 3 == 0,
             .kv = kv,
             .stores = stores,
             .chained = turn / 2 % 2},
            {.rows = 6,
             .heads = 6,
             .kv_heads = 3,
             .head = 70,
             .value_head = stores == Heads::keys_as_values ? 70u : 50u,
             .dimensions = 22,
             .fused = turn % 3 == 1,
             .page_size = 5});
      }
  add({.v_norm = norm_rms, .rotation = Heads::none, .kv = kernels::kv_q8, .stores = Heads::keys_as_values},
      {.rows = 5, .heads = 2, .kv_heads = 2, .head = 512, .value_head = 512, .dimensions = 0});
  for (float size : {0.0f, 1e-6f, 1e-4f, 3e4f})  // scales that are 0, subnormal, large
    add({.rotation = Heads::none, .kv = kernels::kv_q8}, {.rows = 4, .dimensions = 0, .size = size});
  add({.kv = kernels::kv_q8}, {.rows = 0});
  add({.q_norm = norm_rms, .over = Heads::all_heads}, {.rows = 0});
  add({}, {.rows = 0});
  if (sweep == Sweep::normal) return;
  for (uint32_t over : {Heads::each_head, Heads::all_heads})
    for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8})
      add({.q_norm = norm_rms, .k_norm = norm_rms, .over = over, .kv = kv, .chained = 1}, {.rows = 2000,
                                                                                           .heads = 32,
                                                                                           .kv_heads = 8,
                                                                                           .head = 128,
                                                                                           .value_head = 128,
                                                                                           .dimensions = 128,
                                                                                           .fused = true,
                                                                                           .page_size = 32,
                                                                                           .sequences = 7,
                                                                                           .last_position = 5000});
}

}  // namespace heddle::proof
