// Cases of the product: every ending, norm, width of tiles and kind of x. Where x comes as it is and in whole steps of
// its scale, int8 loses nothing and the bound is that of f32; after a norm it may lose half a step per value.
#include "proof/product/product_cases.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/rope_frequencies.h"
#include "kernels/product/half_rows.h"
#include "kernels/product/mma_product.h"
#include "kernels/product/product.h"
#include "proof/product/random_blocks.h"
#include "proof/product/tiles.h"

namespace heddle::proof {
namespace {

using kernels::MmaProduct;
using kernels::Product;
using quant::Format;

struct PhaseShape {
  uint32_t rows, cols, blocks;
  uint32_t second_rows = 0;  // mixed: the last rows
  // qkv
  uint32_t heads = 0, kv_heads = 0, head = 0, rotary = 0;
};

std::string text(const Product& spec, const PhaseShape& s) {
  std::string t = fmt::format("{} {} -> {} blocks={}", kernels::field_text(spec), s.cols, s.rows, s.blocks);
  if (s.heads) t += fmt::format(" heads={}/{} of {} rotary={}", s.heads, s.kv_heads, s.head, s.rotary);
  return t;
}

double activated(uint32_t which, double x) {
  if (which == kernels::act_silu) return x / (1 + std::exp(-x));
  if (which == kernels::act_gelu_erf) return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

float to_bf16_and_back(float v) { return to_f32(to_bf16(v)); }

// Rows of vectors: the values, and what they stand for after the norm.
struct Vectors {
  std::vector<uint8_t> bytes;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<double>> step;  // the most that int8 moves a value
  uint32_t stride;
};

Vectors make_x(Random& random, const Product& spec, uint32_t cols, uint32_t count, const std::vector<float>& weight,
               const std::vector<float>& shift, float epsilon) {
  Vectors x{.stride = (cols + 7) / 8 * 8 + 8};
  const bool bf16 = spec.x == Product::x_bf16;
  x.bytes.assign(size_t(count) * x.stride * (bf16 ? 2 : 4), 0);
  for (uint32_t v = 0; v < count; ++v) {
    std::vector<double> row(cols);
    std::vector<float> values(cols);
    for (uint32_t first = 0; first < cols; first += 16) {
      const float d = std::ldexp(1.0f, int(random.below(4)) - 9);
      for (uint32_t c = first; c < std::min(cols, first + 16); ++c) {
        float q = float(int(random.below(255)) - 127);
        if (c == first) q = 127;  // so that d is what the kernel finds
        values[c] = spec.norm || spec.exact ? random.normal() : q * d;
        if (bf16) values[c] = to_bf16_and_back(values[c]);
      }
    }
    for (uint32_t c = 0; c < cols; ++c) {
      if (bf16) {
        const auto bits = to_bf16(values[c]);
        std::memcpy(x.bytes.data() + (size_t(v) * x.stride + c) * 2, &bits, 2);
      } else {
        std::memcpy(x.bytes.data() + (size_t(v) * x.stride + c) * 4, &values[c], 4);
      }
      row[c] = values[c];
    }
    if (spec.norm) {
      double mean = 0, squares = 0;
      if (spec.norm == Product::layer) mean = std::accumulate(row.begin(), row.end(), 0.0) / cols;
      for (double r : row) squares += (r - mean) * (r - mean);
      const double factor = 1 / std::sqrt(squares / cols + epsilon);
      for (uint32_t c = 0; c < cols; ++c)
        row[c] = (row[c] - mean) * factor * weight[c] + (spec.norm == Product::layer ? shift[c] : 0);
    }
    std::vector<double> step(cols, 0);
    for (uint32_t first = 0; !spec.exact && spec.norm && first < cols; first += 16) {
      double most = 0;
      for (uint32_t c = first; c < std::min(cols, first + 16); ++c) most = std::max(most, std::abs(row[c]));
      for (uint32_t c = first; c < std::min(cols, first + 16); ++c) step[c] = most / 127 * 0.501;
    }
    x.values.push_back(std::move(row)), x.step.push_back(std::move(step));
  }
  return x;
}

struct Weights {
  std::vector<uint8_t> file;
  kernels::TileShape shape;
  const uint8_t* row(uint32_t r) const { return file.data() + size_t(r) * (file.size() / shape.rows); }
};
Weights make_weights(Random& random, Format format, uint32_t rows, uint32_t cols, uint32_t tile_cols) {
  return {random_blocks(random, format, size_t(rows) * cols, cols), {format, rows, cols, tile_cols}};
}

// The same as mma_product takes them: halves in its order, a power of two apart from what they stand for.
struct Halves {
  std::vector<f16> values;
  std::vector<float> scales;
};
Halves make_halves(Random& random, const MmaProduct& spec, Vectors& x, uint32_t cols) {
  const uint32_t ld = spec.slices * spec.tile_cols, count = uint32_t(x.values.size());
  const uint32_t groups = (count + spec.columns - 1) / spec.columns;
  // what is behind the last vector is never zeroed
  Halves h{.values = std::vector<f16>(size_t(groups) * spec.columns * ld, to_f16(NAN)), .scales = {}};
  for (uint32_t v = 0; v < count; ++v) {
    h.scales.push_back(std::ldexp(1.0f, int(random.below(5)) - 2));
    for (uint32_t c = 0; c < ld; ++c) {
      const f16 half = to_f16(c < cols ? float(x.values[v][c]) / h.scales[v] : 0.0f);
      h.values[kernels::half_place(v, c, spec.tile_cols, spec.columns, ld)] = half;
      if (c < cols) x.values[v][c] = double(to_f32(half)) * h.scales[v];
    }
  }
  return h;
}

// A sum with its rounding scale and what int8 may have moved.
struct Sum {
  double value = 0, scale = 0, moved = 0;
};
Sum product_of(const Weights& w, uint32_t r, const std::vector<double>& x, const std::vector<double>& step) {
  const DecodedRow row = decode_row(w.shape.format, w.row(r), w.shape.cols);
  Sum sum;
  for (uint32_t c = 0; c < w.shape.cols; ++c) {
    sum.value += double(row.w[c]) * x[c];
    sum.scale += (std::abs(double(row.w[c]) - row.offset[c]) + std::abs(double(row.offset[c]))) * std::abs(x[c]);
    sum.moved += std::abs(double(row.w[c])) * step[c];
  }
  return sum;
}

// Packed row -> row of the model, over all parts of a qkv matrix.
std::vector<uint32_t> qkv_places(const Product& spec, const PhaseShape& s) {
  std::vector<uint32_t> places;
  const uint32_t turned = (s.heads + s.kv_heads) * s.head;
  for (uint32_t p = 0; p < s.rows; ++p)
    places.push_back(p < turned ? p / s.head * s.head + kernels::qkv_row(p % s.head, s.rotary, spec.halves) : p);
  return places;
}

// With `mma`: the same by mma_product, whose vectors may be any number; two formats are two launches.
void run_product(Product spec, const PhaseShape& s, Machine& m, Random& random, Check& check,
                 std::optional<MmaProduct> mma = {}) {
  const uint32_t first_rows = s.rows - s.second_rows, count = spec.columns;
  const bool is_qkv = spec.out == Product::qkv;
  Weights first = make_weights(random, spec.weights(), first_rows, s.cols, spec.tile_cols);
  Weights second;
  if (spec.mixed) second = make_weights(random, spec.second_weights(), s.second_rows, s.cols, spec.tile_cols);
  const float epsilon = 1e-5f, scale = 0.75f;
  std::vector<float> weight(s.cols + 15, 0.0f), shift(s.cols + 15, 0.0f);
  for (uint32_t c = 0; c < s.cols; ++c) weight[c] = random.uniform(0.5f, 1.5f), shift[c] = random.normal() * 0.1f;
  Vectors x = make_x(random, spec, s.cols, count, weight, shift, epsilon);
  const std::vector<float> bias = random.normals(s.rows, 0.5f);
  std::vector<uint32_t> places;
  if (is_qkv) places = qkv_places(spec, s);
  std::vector<uint32_t> first_places = places;
  first_places.resize(std::min<size_t>(places.size(), first_rows));
  const bool gated = spec.out == Product::gate;
  const uint32_t outputs = gated                  ? s.rows / 2
                           : is_qkv && spec.cache ? s.heads * s.head
                                                  : s.rows,
                 y_stride = outputs + 3;
  const std::vector<float> residual = random.normals(size_t(count) * y_stride);

  // qkv: pages in any order, every vector of a sequence of its own
  const uint32_t page = 16, pages = 3 * count;
  std::vector<uint32_t> positions;
  std::vector<int32_t> table;
  for (uint32_t v = 0; v < count; ++v) {
    positions.push_back(random.below(3 * page));
    for (uint32_t i = 0; i < 3; ++i) table.push_back(int32_t((v * 3 + i) * 7 % pages));
  }
  if (is_qkv && pages % 7 == 0) std::iota(table.begin(), table.end(), 0);
  RopeFrequencies rope;
  for (uint32_t i = 0; i < s.rotary / 2; ++i) rope.radians.push_back(std::pow(10000.0, -2.0 * i / s.rotary));
  const size_t cache_values = size_t(pages) * s.kv_heads * page * s.head;
  const float magnitude = 1.125f;

  Product::Args args{.y = m.poisoned<float>(size_t(count) * y_stride),
                     .residual = m.put(residual),
                     .x = m.put(x.bytes),
                     .norm = m.put(weight),
                     .shift = m.put(shift),
                     .w = m.put(tiles_of(first.shape, first.file, first_places)),
                     .bias = m.put([&] {
                       std::vector<float> packed = bias;
                       for (uint32_t p = 0; is_qkv && p < s.rows; ++p) packed[p] = bias[places[p]];
                       return packed;
                     }()),
                     .turns = m.put(rope.turns()),
                     .positions = m.put(positions),
                     .table = m.put(table),
                     .k = m.poisoned<uint8_t>(cache_values * 2),
                     .v = m.poisoned<uint8_t>(cache_values * 2),
                     .rows = s.rows,
                     .cols = s.cols,
                     .first_rows = first_rows,
                     .second_blocks = spec.mixed ? kernels::mixed_blocks(spec, first_rows, s.second_rows, s.blocks) : 0,
                     .x_stride = x.stride,
                     .y_stride = y_stride,
                     .blocks = s.blocks,
                     .q_rows = s.heads * s.head,
                     .k_rows = s.kv_heads * s.head,
                     .head = s.head,
                     .value_head = s.head,
                     .rotary = s.rotary,
                     .kv_heads = s.kv_heads,
                     .page_size = page,
                     .table_stride = 3,
                     .epsilon = epsilon,
                     .scale = scale,
                     .magnitude = magnitude};
  if (spec.mixed) args.w2 = m.put(tiles_of(second.shape, second.file));
  if (mma) {
    const Halves halves = make_halves(random, *mma, x, s.cols);
    const auto values = m.put(halves.values);
    args.x = {values.address}, args.scales = m.put(halves.scales);
    args.vectors = count, args.rows = first_rows, args.first_rows = 0;
    m.launch(*mma, args);
    args.rows = s.rows, args.first_rows = first_rows, args.w = args.w2;
    mma->format = spec.second;
    if (spec.mixed) m.launch(*mma, args);
  } else {
    m.launch(spec, args);
  }

  // a lane rounds about 40 times for its 32 values (as f32: once each), then come the lanes and the slices; a norm
  // adds a few roundings to every value of x
  const double rounding = (spec.exact ? 80 : 24) + spec.slices + (spec.norm ? 16 : 0);
  auto sum_at = [&](uint32_t r, uint32_t v) {
    Sum sum = r < first_rows ? product_of(first, r, x.values[v], x.step[v])
                             : product_of(second, r - first_rows, x.values[v], x.step[v]);
    if (spec.bias) sum.value += bias[r], sum.scale += std::abs(bias[r]);
    return sum;
  };
  const std::vector<float> y = m.get(args.y, size_t(count) * y_stride);
  std::vector<float> got;
  std::vector<double> want, bound;
  auto expect = [&](float is, double should, double error) {
    got.push_back(is), want.push_back(should), bound.push_back(error);
  };
  // mma_product rounds weights, their scales and mins to f16; the matrix unit's sums are cut off, not rounded
  const double halving = !mma ? 0 : spec.weights() == Format::f16 && !spec.mixed ? 0x1p-18 : 0x1p-10 * 1.01;
  auto error_of = [&](const Sum& sum) { return sum.scale * (rounding * 0x1p-24 + halving) + sum.moved; };
  for (uint32_t v = 0; v < count; ++v) {
    if (is_qkv) {
      std::vector<f16> k(cache_values), vs(cache_values);
      const auto k_bytes = m.get(args.k, cache_values * 2), v_bytes = m.get(args.v, cache_values * 2);
      std::memcpy(k.data(), k_bytes.data(), k_bytes.size()), std::memcpy(vs.data(), v_bytes.data(), v_bytes.size());
      const uint32_t slot = uint32_t(table[v * 3 + positions[v] / page]);
      for (uint32_t r = 0; r < s.rows; ++r) {
        const uint32_t turned_rows = (s.heads + s.kv_heads) * s.head;
        const uint32_t of = r < turned_rows ? r : r - turned_rows, in = of % s.head;
        Sum sum = sum_at(r, v);
        double value = sum.value, error = error_of(sum);
        if (r < turned_rows && in < s.rotary) {
          const uint32_t half = s.rotary / 2, pair = spec.halves ? in % half : in / 2;
          const bool is_second = spec.halves ? in >= half : in % 2;
          const uint32_t partner = spec.halves ? (is_second ? r - half : r + half) : (is_second ? r - 1 : r + 1);
          const Sum other = sum_at(partner, v);
          const double angle = double(positions[v]) * rope.radians[pair];
          const double c = std::cos(angle) * magnitude, sn = std::sin(angle) * magnitude;
          value = is_second ? other.value * sn + sum.value * c : sum.value * c - other.value * sn;
          error = (error + error_of(other)) * magnitude + (sum.scale + other.scale) * 0x1p-21;
        }
        if (r < s.heads * s.head || !spec.cache) {
          expect(y[size_t(v) * y_stride + r], value, error);
        } else {
          const uint32_t head = (r < turned_rows ? r - s.heads * s.head : of) / s.head;
          const size_t at = ((size_t(slot) * s.kv_heads + head) * page + positions[v] % page) * s.head + in;
          expect(to_f32(r < turned_rows ? k[at] : vs[at]), value, error + std::abs(value) * 0x1p-11 + 0x1p-25);
        }
      }
      continue;
    }
    for (uint32_t o = 0; o < outputs; ++o) {
      float is = y[size_t(v) * y_stride + o];
      if (spec.y_bf16) {
        bf16 half;
        std::memcpy(&half, reinterpret_cast<const uint8_t*>(y.data()) + (size_t(v) * y_stride + o) * 2, 2);
        is = to_f32(half);
      }
      const double to_half = spec.y_bf16 ? 0x1p-8 : 0x1p-22;
      if (spec.out == Product::act) {
        const Sum sum = sum_at(o, v);
        const double value = activated(spec.activation, sum.value);
        expect(is, value, error_of(sum) * 1.2 + std::abs(value) * to_half + 1e-6 * std::abs(sum.value));
      } else if (gated) {
        const uint32_t gate_row = o / 2 * 4 + o % 2;
        const Sum gate = sum_at(gate_row, v), up = sum_at(gate_row + 2, v);
        const double a = activated(spec.activation, gate.value), value = a * up.value;
        expect(is, value,
               error_of(gate) * 1.2 * (std::abs(up.value) + error_of(up)) + error_of(up) * std::abs(a) +
                   std::abs(value) * to_half + 1e-6 * std::abs(gate.value * up.value));
      } else {
        const Sum sum = sum_at(o, v);
        const double before = spec.out == Product::add ? residual[size_t(v) * y_stride + o] : 0;
        expect(is, before + scale * sum.value, scale * error_of(sum) + std::abs(before) * 0x1p-23);
      }
    }
  }
  check.near("y", got, want, bound, 1.0);
}

Case product(Product spec, const PhaseShape& s) {
  spec.slices = (s.cols + spec.tile_cols - 1) / spec.tile_cols;
  return {"product", text(spec, s), "sm_90",
          [=](Machine& m, Random& random, Check& check) { run_product(spec, s, m, random, check); }};
}

Case mma_product(MmaProduct mma, const PhaseShape& s, uint32_t vectors, Format second = Format::q6_k) {
  mma.slices = (s.cols + mma.tile_cols - 1) / mma.tile_cols;
  const Product spec{.format = mma.format,
                     .second = uint32_t(second),
                     .mixed = s.second_rows > 0,
                     .tile_cols = mma.tile_cols,
                     .slices = mma.slices,
                     .columns = vectors,
                     .exact = 1,
                     .out = mma.out,
                     .activation = mma.activation,
                     .y_bf16 = mma.y_bf16,
                     .bias = mma.bias,
                     .cache = mma.cache,
                     .halves = mma.halves};
  std::string name =
      fmt::format("{} {} -> {} vectors={} blocks={}", field_text(mma), s.cols, s.rows, vectors, s.blocks);
  if (s.second_rows) name += fmt::format(" ({} in {})", s.second_rows, quant::name(second));
  if (s.heads) name += fmt::format(" heads={}/{} of {} rotary={}", s.heads, s.kv_heads, s.head, s.rotary);
  return {"mma_product", name, "sm_90",
          [=](Machine& m, Random& random, Check& check) { run_product(spec, s, m, random, check, mma); }};
}

void add_mma_cases(Sweep sweep, std::vector<Case>& cases) {
  const auto f = [](Format format) { return uint32_t(format); };
  const MmaProduct plain{.stages = 2, .chained = 1};
  auto add = [&](const PhaseShape& s, uint32_t vectors, auto&& change) {
    MmaProduct p = plain;
    change(p);
    cases.push_back(mma_product(p, s, vectors));
  };
  add({40, 1024, 2}, 3, [](MmaProduct&) {});
  if (sweep == Sweep::quick) return;
  for (Format format : kernels::known_formats)
    add({33, 1024, 1}, 5, [&](MmaProduct& p) { p.format = f(format), p.band = 16; });
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 35u, 150u})
      add({rows, tile_cols * 5 / 2, 2}, rows == 150 ? 9 : 8, [&](MmaProduct& p) {
        p.tile_cols = tile_cols, p.band = rows == 150 ? 64 : 48, p.out = Product::add, p.bias = rows == 35;
        p.format = f(tile_cols == 256 ? Format::q8_0 : Format::q4_k);
      });
  for (uint32_t columns : {8u, 16u, 32u})
    for (uint32_t vectors : {1u, columns, columns * 2 + 1})
      add({72, 512, 3}, vectors, [&](MmaProduct& p) {
        p.tile_cols = 512, p.columns = columns,
        p.stages = columns == 16   ? 1
                   : columns == 32 ? 2
                                   : 3,
        p.chained = columns > 8;
        p.out = columns == 16 ? Product::gate : Product::act, p.y_bf16 = columns == 32, p.bias = 1;
        p.activation = columns == 8 ? kernels::act_gelu_tanh : kernels::act_silu;
        if (columns == 16) p.band = 16;
      });
  for (uint32_t halves : {0u, 1u})
    for (uint32_t rotary : {0u, 16u, 32u})
      for (uint32_t cache : {0u, 1u})
        add({32 * 8, 512, 3, rotary == 16 ? 64u : 0u, 4, 2, 32, rotary}, 5, [&](MmaProduct& p) {
          p.tile_cols = 256, p.out = Product::qkv, p.cache = cache, p.halves = halves, p.bias = rotary == 16;
        });
  add({64, 2048, 132}, 8, [](MmaProduct&) {});  // most blocks have nothing to do
  for (uint32_t columns : {8u, 32u})
    add({204, 1024, 2}, columns, [&](MmaProduct& p) {
      p.teams = 2, p.band = columns == 8 ? 64 : 32, p.columns = columns, p.out = Product::add;
    });
  if (sweep == Sweep::normal) return;
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::q5_k, Format::iq2_xxs})
    for (uint32_t vectors : {8u, 13u, 32u, 70u}) {
      auto chosen = [&](MmaProduct what, PhaseShape s) {
        what.format = f(format), what.chained = 1;
        cases.push_back(mma_product(kernels::mma_product_choice(what, s.rows, s.cols, vectors, s.blocks), s, vectors));
      };
      chosen({.out = Product::gate}, {2868, 4096, 132});
      chosen({.out = Product::add}, {410, 14336, 132});
      chosen({.out = Product::qkv, .halves = 1}, {768, 4096, 132, 0, 4, 1, 128, 128});
      chosen({.bias = 1}, {896, 1536, 132});
    }
}

// A matrix for each vector, picked by a list, several with the same x.
Case experts(Product spec, uint32_t rows, uint32_t cols, uint32_t vectors, uint32_t share) {
  spec.slices = (cols + spec.tile_cols - 1) / spec.tile_cols, spec.experts = 1;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t count = 5;
    std::vector<Weights> all;
    std::vector<uint8_t> tiles;
    for (uint32_t e = 0; e < count; ++e) {
      all.push_back(make_weights(random, spec.weights(), rows, cols, spec.tile_cols));
      const std::vector<uint8_t> one = tiles_of(all[e].shape, all[e].file);
      tiles.insert(tiles.end(), one.begin(), one.end());
    }
    const Vectors x = make_x(random, spec, cols, (vectors + share - 1) / share, {}, {}, 0);
    std::vector<uint32_t> ids;
    for (uint32_t v = 0; v < vectors; ++v) ids.push_back(random.below(count));
    const Product::Args args{.y = m.poisoned<float>(size_t(vectors) * rows),
                             .x = m.put(x.bytes),
                             .w = m.put(tiles),
                             .experts = m.put(ids),
                             .expert_bytes = all[0].shape.bytes(),
                             .rows = rows,
                             .cols = cols,
                             .x_stride = x.stride,
                             .y_stride = rows,
                             .blocks = 2,
                             .vectors = vectors,
                             .x_share = share,
                             .scale = 1};
    m.launch(spec, args);
    std::vector<double> want, bound;
    for (uint32_t v = 0; v < vectors; ++v)
      for (uint32_t r = 0; r < rows; ++r) {
        const Sum sum = product_of(all[ids[v]], r, x.values[v / share], x.step[v / share]);
        want.push_back(sum.value), bound.push_back(sum.scale * (80 + spec.slices) * 0x1p-24);
      }
    check.near("y", m.get(args.y, want.size()), want, bound, 1.0);
  };
  return {"product",
          fmt::format("{} {} -> {} vectors={} share={}", kernels::field_text(spec), cols, rows, vectors, share),
          "sm_90", run};
}

constexpr uint32_t number(Format format) { return uint32_t(format); }

}  // namespace

void add_phase_cases(Sweep sweep, std::vector<Case>& cases) {
  add_mma_cases(sweep, cases);
  const Product plain{.groups = 2, .second_groups = 2, .resident = 1, .chained = 1};
  auto with = [&](auto&& change) {
    Product p = plain;
    change(p);
    return p;
  };
  cases.push_back(product(with([](Product& p) { p.norm = Product::rms; }), {40, 2048, 2}));
  cases.push_back(product(
      with([](Product& p) { p.out = Product::qkv, p.norm = Product::rms, p.mixed = 1, p.halves = 1, p.bias = 1; }),
      {96, 1024, 2, 16, 4, 1, 16, 16}));
  if (sweep == Sweep::quick) return;
  for (Format second : {Format::q4_k, Format::q6_k, Format::q8_0})
    for (uint32_t blocks : {2u, 3u, 8u})
      cases.push_back(product(with([=](Product& p) {
                                p.mixed = 1, p.second = number(second), p.chained = blocks > 2;
                                p.groups = blocks > 2 ? 4 : 2, p.second_groups = blocks > 3 ? 1 : 2;
                              }),
                              {52, 2048, blocks, 20}));
  for (Format format : kernels::known_formats) {
    const uint32_t f = number(format);
    if (!quant::is_float(format)) cases.push_back(product(with([=](Product& p) { p.format = f; }), {21, 1024, 2}));
    cases.push_back(product(with([=](Product& p) { p.format = f, p.exact = 1, p.tile_cols = 512; }), {21, 512, 2}));
  }
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 17u, 130u}) {
      const uint32_t groups = tile_cols == 256 ? 1 : 2;
      cases.push_back(product(with([=](Product& p) { p.tile_cols = tile_cols, p.groups = groups; }),
                              {rows, tile_cols * 3 - 256, 3}));
      cases.push_back(product(with([=](Product& p) {
                                p.tile_cols = tile_cols, p.groups = groups, p.norm = Product::layer, p.depth = 3;
                                p.out = Product::add, p.bias = 1;
                              }),
                              {rows, tile_cols * 2, 2}));
    }
  // widths that fill neither a tile nor a load
  for (uint32_t cols : {12u, 60u, 172u, 300u})
    for (uint32_t norm : {Product::no_norm, Product::rms, Product::layer})
      cases.push_back(product(with([=](Product& p) {
                                p.format = number(Format::f32), p.exact = 1, p.tile_cols = 256, p.groups = 1,
                                p.norm = norm;
                              }),
                              {33, cols, 2}));
  for (uint32_t activation : {kernels::act_silu, kernels::act_gelu_erf, kernels::act_gelu_tanh})
    for (uint32_t out : {Product::act, Product::gate})
      cases.push_back(product(with([=](Product& p) {
                                p.out = out, p.activation = activation, p.y_bf16 = activation != kernels::act_silu;
                                p.norm = Product::rms, p.bias = 1;
                              }),
                              {36, 1024, 3}));
  for (uint32_t columns = 2; columns <= 8; ++columns)
    cases.push_back(product(with([=](Product& p) {
                              p.columns = columns, p.norm = columns % 2 ? Product::rms : Product::no_norm;
                              p.out = Product::add, p.x = columns == 4 ? Product::x_bf16 : Product::x_f32;
                            }),
                            {50, 2048, 3}));
  for (uint32_t columns : {1u, 2u})
    cases.push_back(
        product(with([=](Product& p) { p.columns = columns, p.exact = 1, p.x = Product::x_bf16; }), {50, 2048, 3}));
  for (uint32_t halves : {0u, 1u})
    for (uint32_t rotary : {0u, 8u, 16u, 32u}) {
      cases.push_back(product(with([=](Product& p) {
                                p.out = Product::qkv, p.halves = halves, p.columns = rotary == 8 ? 3 : 1;
                                p.norm = Product::rms, p.bias = rotary == 16;
                              }),
                              {32 * 8, 512, 3, 0, 4, 2, 32, rotary}));
      if (rotary % 16 == 0)
        cases.push_back(product(with([=](Product& p) {
                                  p.out = Product::qkv, p.cache = 0, p.halves = halves, p.columns = rotary / 16 + 1;
                                }),
                                {32 * 8, 512, 3, 0, 4, 2, 32, rotary}));
    }
  cases.push_back(product(with([](Product& p) { p.per_warp = 3, p.groups = 4; }), {70, 6144, 2}));
  cases.push_back(
      product(with([](Product& p) { p.per_warp = 7, p.groups = 1, p.x = Product::x_bf16, p.out = Product::add; }),
              {35, 14336, 2}));
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t columns : {1u, 2u})
      cases.push_back(product(with([=](Product& p) {
                                p.unit = 32, p.tile_cols = tile_cols, p.groups = tile_cols / 256 * 2,
                                p.columns = columns;
                                p.out = Product::gate, p.room = 76;
                              }),
                              {100, tile_cols * 3, 3}));
  cases.push_back(product(plain, {64, 4096, 132}));  // most blocks have nothing to do
  cases.push_back(product(with([](Product& p) { p.chained = 0, p.depth = 1; }), {64, 1024, 5}));
  cases.push_back(product(with([](Product& p) { p.late = 1, p.norm = Product::rms; }), {64, 1024, 5}));
  cases.push_back(experts(with([](Product& p) { p.exact = 1; }), 40, 512, 6, 2));
  cases.push_back(experts(with([](Product& p) { p.x = Product::x_bf16; }), 24, 1024, 3, 1));
  if (sweep == Sweep::normal) return;
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::q5_k, Format::iq2_xxs}) {
    auto chosen = [&](Product what, PhaseShape s) {
      what.format = number(format), what.exact = quant::is_float(format), what.chained = 1;
      cases.push_back(product(kernels::product_choice(what, s.rows, s.cols).spec, s));
    };
    chosen({.norm = Product::rms, .out = Product::gate, .y_bf16 = 1}, {28672, 4096, 264});
    chosen({.x = Product::x_bf16, .out = Product::add}, {4096, 14336, 264});
    chosen({.norm = Product::rms, .out = Product::qkv, .halves = 1}, {6144, 4096, 132, 0, 32, 8, 128, 128});
    chosen({.norm = Product::rms}, {8960, 1536, 264});
  }
}

}  // namespace heddle::proof
