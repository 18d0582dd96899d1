// All gemv kernels: which rows a warp has, how x is read, the loop over a row, and the sum over the lanes.
#include "kernels/product/gemv.h"

#include "kernels/product/gemv_dot.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "quant/q8_1.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

// Where f32 x goes in shared memory.
bool padded(const Gemv& spec) { return !quant::is_float(spec.weights()); }
uint32_t column_floats(const Gemv& spec, uint32_t cols) { return padded(spec) ? cols / 32 * 36 : (cols + 3) / 4 * 4; }
// Values of a column in a chunk: whole steps of every format.
uint32_t chunk_cols(const Gemv& spec) { return Gemv::chunk_values / spec.columns / 1024 * 1024; }

class GemvWriter {
 public:
  explicit GemvWriter(const Gemv& s)
      : spec(s),
        k(std::string(Gemv::name), s.warps * 32),
        weights(s),
        place(weights.place(k)),
        sums(k, s.rows, s.columns) {}

  Kernel write() {
    chain_start(k, spec.chained);
    find_rows();
    if (spec.chained) prefetch_first();
    chain_wait(k, spec.chained);
    if (spec.x == Gemv::direct) k.when(has_row, [&] { add_range(k.constant(0u), cols, global_floats()); });
    if (spec.x == Gemv::q8_1) k.when(has_row, [&] { add_range(k.constant(0u), cols, global_q8()); });
    if (spec.x == Gemv::staged) add_staged();
    if (spec.x == Gemv::chunked) add_chunks();
    write_sums();
    return k.finish();
  }

 private:
  const Gemv& spec;
  Builder<Gemv::Args> k;
  GemvWeights weights;
  GemvWeights::Place place;
  GemvSums sums;

  U32 rows, cols, row, part;                // the group's first row; this warp's number in the group
  Pred has_row;                             // the group has a row at all
  std::vector<Global<uint8_t>> row_starts;  // of the rows being computed; padding rows read the last one

  void find_rows() {
    using Args = Gemv::Args;
    rows = k.arg(&Args::rows);
    cols = k.arg(&Args::cols);
    const uint32_t group = spec.warps_per_row;
    U32 warp = k.warp();
    part = group == 1 ? k.constant(0u) : warp % group;
    row = (k.block_id() * (spec.warps / group) + (group == 1 ? warp : warp / group)) * spec.rows;
    has_row = row < rows;
    U32 row_bytes = cols / weights.block_values() * weights.block_bytes();
    for (uint32_t r = 0; r < spec.rows; ++r) {
      U32 mine = r == 0 ? row : min(row + r, rows - 1u);
      row_starts.push_back(k.arg(&Args::w) + mul_wide(mine, row_bytes));
    }
  }

  // Does not read activations: a chained kernel loads its first weights before it waits.
  void prefetch_first() {
    k.when(has_row, [&] {
      for (uint32_t u = 0; u < spec.unroll; ++u) {
        const uint32_t step = u * spec.warps_per_row;
        k.when(((part + step) * 32u + place.index) * weights.values_per_lane() < cols, [&] {
          for (auto& start : row_starts) prefetch((start + lane_bytes()).offset(step * weights.step_bytes()));
        });
      }
    });
  }
  // From the start of a row to the lane's block in the warp's first step.
  U32 lane_bytes() { return place.block * weights.block_bytes() + part * weights.step_bytes(); }
  U32 lane_values() { return place.first + place.block * weights.block_values() + part * weights.step_values(); }

  GemvFloats<Space::global> global_floats() {
    return {.first = k.arg(&Gemv::Args::x), .stride = {.given = k.arg(&Gemv::Args::x_stride)}};
  }
  GemvQ8 global_q8() {
    auto first = k.arg(&Gemv::Args::xq);
    return {.quants = first, .pairs = first + cols, .stride = {.given = k.arg(&Gemv::Args::xq_stride)}};
  }

  // --- x through shared memory --------------------------------------------------------------------------------------
  // All threads copy values [from, from + count) of every column; any number of threads and of values.
  void copy(const GemvFloats<Space::shared>& to, const GemvFloats<Space::global>& x, U32 from, U32 count) {
    const uint32_t wide = weights.values_per_lane() < 4 ? weights.values_per_lane() : 4;
    k.loop(k.thread() * wide, count, k.threads() * wide, [&](U32 i) {
      auto target = to.at(i);
      auto source = x.at(from + i);
      std::vector<std::vector<F32>> v;
      for (uint32_t c = 0; c < spec.columns; ++c) v.push_back(source.load(c, 0, wide));
      for (uint32_t c = 0; c < spec.columns; ++c) {
        if (wide == 4) store_vec(target.column(c), Vec<float, 4>{v[c][0], v[c][1], v[c][2], v[c][3]});
        if (wide == 2) store_vec(target.column(c), Vec<float, 2>{v[c][0], v[c][1]});
        if (wide == 1) store(target.column(c), v[c][0]);
      }
    });
  }
  void add_staged() {
    U32 pitch = padded(spec) ? cols + (cols >> 5u) * 4u : (cols + 3u) & ~3u;
    const GemvFloats<Space::shared> x{k.dynamic_shared<float>(), {.given = pitch}, padded(spec)};
    copy(x, global_floats(), k.constant(0u), cols);
    k.barrier();
    k.when(has_row, [&] { add_range(k.constant(0u), cols, x); });
  }
  // Warps without a row copy too, so that every warp reaches every barrier.
  void add_chunks() {
    const uint32_t chunk = chunk_cols(spec), pitch = column_floats(spec, chunk);
    const GemvFloats<Space::shared> x{k.shared<float>(pitch * spec.columns), {.known = pitch}, padded(spec)};
    auto from_global = global_floats();
    k.loop(0u, cols, chunk, [&](U32 from) {
      U32 count = min(cols - from, chunk);
      k.barrier();  // the previous chunk is no longer read
      copy(x, from_global, from, count);
      k.barrier();
      k.when(has_row, [&] { add_range(from, count, x); });
    });
  }

  // --- the loop over a row ------------------------------------------------------------------------------------------
  // Adds the products of values [from, from + count) of the rows with x, which starts at value `from`. `from` is a
  // multiple of a step. First the steps that are complete for all warps of the group, `unroll` at a time; then single
  // steps, in which lanes past the end read the row's first block and ignore it.
  template <class X>
  void add_range(U32 from, U32 count, const X& x) {
    const uint32_t group = spec.warps_per_row;
    U32 first_step = from / weights.step_values(), full_steps = count / weights.step_values();
    U32 pieces = count / weights.values_per_lane();
    std::vector<Global<uint8_t>> w;
    for (auto& start : row_starts) w.push_back(start + lane_bytes());
    const X mine = x.at(lane_values()), begin = x.at(place.first);

    auto step = k.var(0u);
    k.loop_while([&] { return step.get() + spec.unroll * group <= full_steps; },
                 [&] {
                   U32 s = step.get();
                   std::vector<Global<uint8_t>> here;
                   for (auto& p : w) here.push_back(p + mul_wide(first_step + s, weights.step_bytes()));
                   add_steps(here, mine.at(s * weights.step_values()), spec.unroll, nullptr);
                   step += spec.unroll * group;
                 });
    k.loop_while(
        [&] { return step.get() * 32u < pieces; },
        [&] {
          U32 s = step.get();
          Pred active = (s + part) * 32u + place.index < pieces;
          std::vector<Global<uint8_t>> here;
          for (size_t r = 0; r < w.size(); ++r)
            here.push_back(choose(active, w[r] + mul_wide(first_step + s, weights.step_bytes()), row_starts[r]));
          add_steps(here, mine.at(s * weights.step_values()).or_else(active, begin), 1, &active);
          step += group;
        });
  }
  template <class X>
  void add_steps(const std::vector<Global<uint8_t>>& at, const X& x, uint32_t steps, const Pred* active) {
    const uint32_t group = spec.warps_per_row;
    std::vector<std::vector<Raw>> raw(steps);
    for (uint32_t u = 0; u < steps; ++u)
      for (auto& p : at) raw[u].push_back(weights.load(k, p.offset(u * group * weights.step_bytes()), place));
    for (uint32_t u = 0; u < steps; ++u)
      kernels::add_products(sums, weights, place, raw[u], x, u * group * weights.step_values(), active);
  }

  // --- the result ---------------------------------------------------------------------------------------------------
  void put(U32 r, U32 c, F32 sum) {
    auto y = k.arg(&Gemv::Args::y) + (mul_wide(k.arg(&Gemv::Args::y_stride), c) + widen(r));
    store(y, spec.add ? load(y) + sum : sum);
  }
  void write_sums() {
    const uint32_t group = spec.warps_per_row, results = spec.rows * spec.columns;
    auto total = [&](uint32_t i) { return warp_sum(sums.sums[i].get()); };
    if (group == 1) {
      k.when(has_row, [&] {
        std::vector<F32> totals;
        for (uint32_t i = 0; i < results; ++i) totals.push_back(total(i));
        for (uint32_t r = 0; r < spec.rows; ++r)
          k.when(place.index == 0u && row + r < rows, [&] {
            for (uint32_t c = 0; c < spec.columns; ++c) put(row + r, k.constant(c), totals[r * spec.columns + c]);
          });
      });
      return;
    }
    // each warp's sums to shared memory; lane i of the group's first warp adds up and writes result i
    auto partial = k.shared<float>(spec.warps * results);
    U32 warp = k.warp();
    k.when(has_row, [&] {
      std::vector<F32> totals;
      for (uint32_t i = 0; i < results; ++i) totals.push_back(total(i));
      k.when(place.index == 0u, [&] {
        for (uint32_t i = 0; i < results; ++i) store((partial + warp * results).offset(i), totals[i]);
      });
    });
    k.barrier();
    U32 r = place.index / spec.columns, c = place.index % spec.columns;
    k.when(part == 0u && place.index < results && row + r < rows, [&] {
      auto from = partial + (warp * results + place.index);
      F32 sum = load(from);
      for (uint32_t g = 1; g < group; ++g) sum = sum + load(from.offset(g * results));
      put(row + r, c, sum);
    });
  }
};

void check_gemv_together(const Gemv& s) {
  const auto format = s.weights();
  auto refuse = [&](std::string_view why) { throw Error("gemv: {} ({})", why, field_text(s)); };
  if (s.warps % s.warps_per_row) refuse("warps must be a multiple of warps_per_row");
  if (s.rows == 4 && s.columns > 1) refuse("rows = 4 is for one column, or registers run out");
  if (s.rows * s.unroll > 8) refuse("rows times unroll has a limit of 8, or registers run out");
  if (quant::is_float(format)) {
    if (s.x == Gemv::q8_1) refuse("x = q8_1 is for integer formats");
    if (s.load < quant::block_bytes(format)) refuse("a load must hold at least one value");
    if (s.scales == Gemv::shuffled) refuse("floats have no scales");
    return;
  }
  if (s.load == 2) refuse("load = 2 is for f16 and bf16");
  if (s.scales == Gemv::shuffled) {
    if (!block_format(format).shared_head) refuse("the lanes of a block of this format need different scales");
    if (GemvWeights(s).lanes_per_block() == 1) refuse("scales = shuffled needs several lanes per block");
  }
}

}  // namespace

Kernel Gemv::build() const {
  check_fields(*this);
  check_gemv_together(*this);
  return GemvWriter(*this).write();
}

Grid Gemv::grid(const Args& args) const {
  check_fields(*this);
  check_gemv_together(*this);
  const GemvWeights w(*this);
  if (args.cols % w.block_values())
    throw Error("gemv: {} columns of {} are not a multiple of {}{}", args.cols, quant::name(weights()),
                w.block_values(),
                quant::is_float(weights()) ? fmt::format(", the values of load = {}", load) : ", its block");
  auto aligned = [](std::string_view what, uint64_t value, uint64_t to) {
    if (value % to) throw Error("gemv: {} is {}, expected a multiple of {}", what, value, to);
  };
  auto at_least = [](std::string_view what, uint32_t value, uint64_t least) {
    if (value < least) throw Error("gemv: {} is {}, expected {} or more", what, value, least);
  };
  aligned("the address of w", args.w.address, 16);
  aligned("the address of y", args.y.address, 4);
  if (x == q8_1)
    aligned("the address of xq", args.xq.address, 16);
  else
    aligned("the address of x", args.x.address, 16);
  if (columns > 1) {
    at_least("y_stride", args.y_stride, args.rows);
    if (x == q8_1) {
      at_least("xq_stride", args.xq_stride, quant::q8_1_row_bytes(args.cols));
      aligned("xq_stride", args.xq_stride, 16);
    } else {
      at_least("x_stride", args.x_stride, args.cols);
      aligned("x_stride", args.x_stride, std::min(w.values_per_lane(), 4u));
    }
  }
  if (const uint64_t bytes = 4ull * columns * column_floats(*this, args.cols); x == staged && bytes > max_staged_bytes)
    throw Error(
        "gemv: x = staged needs {} bytes of shared memory for {} x {} values, the limit is {}; x = chunked "
        "does any length",
        bytes, columns, args.cols, max_staged_bytes);
  const uint32_t at_once = warps / warps_per_row * rows;  // rows of a block
  const uint32_t blocks = args.rows / at_once + (args.rows % at_once != 0);
  return {.x = blocks ? blocks : 1};  // an empty grid cannot be launched
}

uint32_t Gemv::dynamic_shared(const Args& args) const {
  return x == staged ? 4 * columns * column_floats(*this, args.cols) : 0;
}

// The catalogue: seven variants for q4_k, then one for each format.
const std::vector<GemvPreset>& gemv_presets() {
  static const std::vector<GemvPreset> all = [] {
    std::vector<GemvPreset> list{
        {"tiled_q4k_gemv", "Q4_K gemv: x in shared memory, one warp per row, several rows per block",
         Gemv{.warps = 8, .x = Gemv::staged}},
        {"chunked_tiled_q4k_gemv", "Q4_K gemv: x in shared memory in chunks of 8192 values, for any length",
         Gemv{.warps = 4, .x = Gemv::chunked}},
        {"coalesced_q4k_gemv", "Q4_K gemv: the scales of a super-block read once and handed on by shuffle",
         Gemv{.load = 4, .scales = Gemv::shuffled}},
        {"wide_q4k_gemv", "Q4_K gemv: eight warps per row, their sums merged in shared memory",
         Gemv{.warps = 8, .warps_per_row = 8}},
        {"vectorized_q4k_gemv", "Q4_K gemv: a word of nibbles per lane, 128 bytes per warp and access",
         Gemv{.load = 4}},
        {"mwv_q4k_gemv", "Q4_K gemv: four warps per row and 16-byte loads", Gemv{.warps = 4, .warps_per_row = 4}},
        {"mwv_dp4a_q4k_gemv", "Q4_K gemv: q8_1 activations, integer dot products, three warps per row",
         Gemv{.warps = 3, .warps_per_row = 3, .x = Gemv::q8_1}},
    };
    for (quant::Format format : gemv_formats) {
      std::string name(quant::name(format));
      if (name.ends_with("_k")) name.erase(name.size() - 2, 1);
      list.push_back({name + "_gemv", fmt::format("gemv with weights in {}", quant::name(format)),
                      Gemv{.format = uint32_t(format), .warps = 4, .rows = 2}});
    }
    return list;
  }();
  return all;
}

void add_gemv_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Gemv>());
  for (const GemvPreset& p : gemv_presets()) all.push_back(preset(p.name, p.summary, p.spec));
}

}  // namespace heddle::kernels
