// The stages of a and b are copied by cp.async, 16 bytes at a time. The 16-byte pieces of a row are swizzled by the row
// number (piece ^ row), so that the 8 rows that ldmatrix takes at once lie in different banks. The operands of the next
// step are loaded while the matrix unit works on this one, across stages too.
#include "kernels/product/gemm.h"

#include <limits>

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using GemmArgs = Gemm::Args;
using A = Tile<heddle::f16, 16, 16>;
using B = Tile<heddle::f16, 16, 8>;

// Tiles of y that run at the same time should share rows of a and b in L2: bands of this many rows are computed column
// by column. 132 blocks of 128 x 256 then cover 2048 x 2112 of y.
constexpr uint32_t rows_together = 2048;

class GemmWriter {
 public:
  explicit GemmWriter(const Gemm& spec)
      : s_(spec), k_(std::string(spec.name), {.threads = spec.threads(), .min_blocks = spec.resident}) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    chain_wait(k_, s_.chained);
    U32 m = k_.arg(&GemmArgs::m), n = k_.arg(&GemmArgs::n);
    U32 down = (m + (s_.rows - 1)) / s_.rows, along = (n + (s_.cols - 1)) / s_.cols;
    const uint32_t together = rows_together / s_.rows;
    U32 block = k_.block_id(), of_group = along * together;
    U32 group = block / max(of_group, 1u), in_group = block - group * of_group;
    U32 group_rows = min(down - group * together, together), high = max(group_rows, 1u);
    row_ = (group * together + in_group % high) * s_.rows;
    col_ = in_group / high * s_.cols;
    k_.when(m > 0u && n > 0u, [&] { body(); });
    return k_.finish();
  }

 private:
  uint32_t row_bytes() const { return s_.depth * 2; }
  uint32_t pieces() const { return s_.depth / 8; }  // of 16 bytes in a row
  uint32_t steps() const { return s_.depth / 16; }  // of the matrix unit in a stage
  uint32_t warp_rows() const { return s_.rows / s_.warps_down; }
  uint32_t warp_cols() const { return s_.cols / s_.warps_along; }
  uint32_t a_bytes() const { return s_.rows * row_bytes(); }
  uint32_t stage_bytes() const { return (s_.rows + s_.cols) * row_bytes(); }

  // Which piece of the row lies in the place of `piece`. Two rows of 64 bytes share 128 bytes.
  U32 swapped(U32 row, U32 piece) { return piece ^ (s_.depth == 64 ? row & 7u : row >> 1 & 3u); }

  // What one thread copies of one operand in a stage: the same piece of rows that are a fixed distance apart.
  struct Share {
    Global<uint8_t> from;      // row 0 of the tile, this thread's piece, first stage
    std::vector<U32> offsets;  // of its rows in bytes; padding rows repeat the last one
    U32 to;                    // of its first row, from the start of the stage
  };
  Share share(Global<heddle::f16> matrix, U32 first, U32 count, U32 stride, uint32_t tile_rows, uint32_t at) {
    U32 row = k_.thread() / pieces(), piece = k_.thread() % pieces();
    Share s{(matrix + mul_wide(first, stride)).as<uint8_t>() + piece * 16u,
            {},
            row * row_bytes() + swapped(row, piece) * 16u + at};
    U32 last = count - 1u - first;
    for (uint32_t i = 0; i < tile_rows; i += row_step()) s.offsets.push_back(min(row + i, last) * (stride * 2u));
    return s;
  }
  uint32_t row_step() const { return s_.threads() / pieces(); }

  void body() {
    stages_ = k_.shared<uint8_t>(s_.shared_bytes(), 128);
    a_ = share(k_.arg(&GemmArgs::a), row_, k_.arg(&GemmArgs::m), k_.arg(&GemmArgs::lda), s_.rows, 0);
    b_ = share(k_.arg(&GemmArgs::b), col_, k_.arg(&GemmArgs::n), k_.arg(&GemmArgs::ldb), s_.cols, a_bytes());
    U32 lane = k_.lane(), warp = k_.warp();
    warp_row_ = warp / s_.warps_along * warp_rows();
    warp_col_ = warp % s_.warps_along * warp_cols();
    // ldmatrix: lane 8 i + r names row r of matrix i. Of a: 16 rows, then the same with the next 8 values of k; of b: 8
    // rows with 16 values of k, then the next 8 rows.
    U32 a_row = lane % 16u, b_row = lane % 8u + lane / 16u * 8u;
    for (uint32_t step = 0; step < steps(); ++step) {
      a_at_.push_back((warp_row_ + a_row) * row_bytes() + swapped(a_row, lane / 16u + step * 2) * 16u);
      b_at_.push_back((warp_col_ + b_row) * row_bytes() + swapped(b_row, lane / 8u % 2u + step * 2) * 16u + a_bytes());
    }
    for (uint32_t i = 0; i < warp_rows() / 16 * (warp_cols() / 8); ++i) sums_.emplace_back(k_);
    multiply();
    write();
  }

  // The copies of stage `tile` that step `step` issues, for all steps but the last; the last of them commits the group.
  void copy(U32 tile, U32 to, U32 tiles, uint32_t step, uint32_t of_steps) {
    k_.when(tile < tiles, [&] {
      const uint32_t count = uint32_t(a_.offsets.size() + b_.offsets.size());
      auto stage = stages_ + to;
      U64 along = mul_wide(tile, row_bytes());
      for (uint32_t i = count * step / of_steps; i < count * (step + 1) / of_steps; ++i) {
        const bool is_a = i < a_.offsets.size();
        const Share& s = is_a ? a_ : b_;
        const uint32_t j = is_a ? i : i - uint32_t(a_.offsets.size());
        copy_async<16>(stage + s.to + j * row_step() * row_bytes(), s.from + (along + widen(s.offsets[j])));
      }
    });
    if (step + 1 == of_steps) copy_commit(k_);
  }

  // The operands of one step.
  struct Operands {
    std::vector<U32> a, b;  // 4 registers for 16 rows of a; 4 for 16 of b
  };
  Operands load_operands(Shared<uint8_t> stage, uint32_t step) {
    Operands o;
    auto add = [&](std::vector<U32>& to, U32 at, uint32_t rows) {
      for (uint32_t i = 0; i < rows; i += 16)
        for (U32 v : load_matrices<4>((stage + at).offset(i * row_bytes()))) to.push_back(v);
    };
    add(o.a, a_at_[step], warp_rows());
    add(o.b, b_at_[step], warp_cols());
    return o;
  }
  void multiply(const Operands& o) {
    const uint32_t down = warp_rows() / 16, along = warp_cols() / 8;
    for (uint32_t j = 0; j < along; ++j)
      for (uint32_t turn = 0; turn < down; ++turn) {
        const uint32_t i = j % 2 ? down - 1 - turn : turn;  // back and forth: a's registers are used twice in a row
        mma(sums_[i * along + j], A{{o.a[i * 4], o.a[i * 4 + 1], o.a[i * 4 + 2], o.a[i * 4 + 3]}},
            B{{o.b[j * 2], o.b[j * 2 + 1]}});
      }
  }

  void multiply() {
    U32 tiles = (k_.arg(&GemmArgs::k) + (s_.depth - 1)) / s_.depth;
    const uint32_t ahead = s_.stages - 1, last = steps() - 1, end = s_.shared_bytes();
    for (uint32_t i = 0; i < ahead; ++i) copy(k_.constant(i), k_.constant(i * stage_bytes()), tiles, 0, 1);
    copy_wait(k_, ahead - 1);
    k_.barrier();
    std::vector<Var<uint32_t>> first;  // the operands of a stage's first step
    const Operands begin = load_operands(stages_, 0);
    for (auto* side : {&begin.a, &begin.b})
      for (U32 v : *side) first.push_back(k_.var(v));
    auto from = k_.var(0u), to = k_.var(ahead * stage_bytes());
    k_.loop(0u, tiles, 1u, [&](U32 tile) {
      Operands now;
      for (size_t i = 0; i < first.size(); ++i) (i < begin.a.size() ? now.a : now.b).push_back(first[i].get());
      U32 here = from.get(), free = to.get();
      for (uint32_t step = 0; step < last; ++step) {
        const Operands next = load_operands(stages_ + here, step + 1);
        copy(tile + ahead, free, tiles, step, last);
        multiply(now);
        now = next;
      }
      copy_wait(k_, ahead - 1);
      k_.barrier();  // the next stage has arrived, and all warps have read this one
      U32 after = here + stage_bytes();
      after = select(after == end, k_.constant(0u), after);
      to = here;
      from = select(tile + 1u < tiles, after, here);  // past the last stage nothing may be read
      const Operands next = load_operands(stages_ + from.get(), 0);
      multiply(now);
      for (size_t i = 0; i < first.size(); ++i) first[i] = i < begin.a.size() ? next.a[i] : next.b[i - begin.a.size()];
    });
    copy_wait(k_, 0);
  }

  // Two rows at a time, so that all loads are in flight before the first store. Values outside of y are read from its
  // last row or pair of columns, and not written.
  void write() {
    U32 lane = k_.lane(), m = k_.arg(&GemmArgs::m), n = k_.arg(&GemmArgs::n);
    U32 first_row = row_ + warp_row_ + lane / 4u, first_col = col_ + warp_col_ + lane % 4u * 2u;
    const uint32_t along = warp_cols() / 8;
    std::vector<U32> cols;
    std::vector<F32> bias;
    for (uint32_t j = 0; j < along; ++j) {
      cols.push_back(first_col + j * 8);
      if (!s_.bias) continue;
      for (uint32_t i : {0u, 1u}) bias.push_back(load(k_.arg(&GemmArgs::bias) + min(cols[j] + i, n - 1u)));
    }
    for (uint32_t i = 0; i < warp_rows() / 16; ++i) {
      std::vector<Global<float>> at;
      std::vector<F32> scale;
      std::vector<Vec<float, 2>> old;
      for (uint32_t half : {0u, 1u}) {
        U32 row = min(first_row + (i * 16 + half * 8), m - 1u);
        scale.push_back(load(k_.arg(&GemmArgs::scale) + row));
        at.push_back(k_.arg(&GemmArgs::y) + mul_wide(row, k_.arg(&GemmArgs::y_stride)));
        for (uint32_t j = 0; j < along && s_.add; ++j)
          old.push_back(load_vec<2>(at[half] + min(cols[j], (n - 1u) & ~1u)));
      }
      for (uint32_t half : {0u, 1u}) {
        Pred real = first_row + (i * 16 + half * 8) < m;
        for (uint32_t j = 0; j < along; ++j) {
          Vec<float, 2> v;
          for (uint32_t c : {0u, 1u}) {
            v[c] = sums_[i * along + j].get(half * 2 + c) * scale[half];
            if (s_.bias) v[c] = v[c] + bias[j * 2 + c];
            if (s_.add) v[c] = v[c] + old[half * along + j][c];
          }
          auto to = at[half] + cols[j];
          k_.when(real && cols[j] + 1u < n, [&] { store_vec(to, v); });
          k_.when(real && cols[j] + 1u == n, [&] { store(to, v[0]); });
        }
      }
    }
  }

  const Gemm& s_;
  Builder<GemmArgs> k_;
  U32 row_, col_;            // of y, where the tile begins
  U32 warp_row_, warp_col_;  // in the tile, where this warp's part begins
  Shared<uint8_t> stages_;
  Share a_, b_;
  std::vector<U32> a_at_, b_at_;  // in a stage, what this lane names for ldmatrix, per step
  std::vector<Acc<float, 16, 8>> sums_;
};

}  // namespace

Kernel Gemm::build() const {
  check_fields(*this);
  auto refuse = [&](uint32_t size, std::string_view what, uint32_t warps) {
    if (size % (warps * 16))
      throw Error("gemm: {} {} cannot be dealt to {} warps in multiples of 16", size, what, warps);
  };
  refuse(rows, "rows", warps_down);
  refuse(cols, "columns", warps_along);
  if (threads() > 1024) throw Error("gemm: {} x {} warps are more than 32", warps_down, warps_along);
  if (rows * cols / threads() > 128)
    throw Error("gemm: {} x {} values are more than 128 for each of {} threads", rows, cols, threads());
  const uint32_t step = threads() / (depth / 8);
  if (step % 8 || rows % step || cols % step)
    throw Error("gemm: {} threads copy {} rows at a time, but {} rows and {} columns must be multiples of that and 8",
                threads(), step, rows, cols);
  return GemmWriter(*this).build();
}

Grid Gemm::grid(const GemmArgs& args) const {
  auto refuse = [](const char* field, uint32_t value, uint32_t multiple, uint32_t least) {
    if (value % multiple || value < least)
      throw Error("gemm: {} is {}, but it must be a multiple of {} and at least {}", field, value, multiple, least);
  };
  if (args.k == 0) throw Error("gemm: k is 0, but a product has at least one term");
  refuse("lda", args.lda, 64, args.k);
  refuse("ldb", args.ldb, 64, args.k);
  refuse("y_stride", args.y_stride, 2, args.n);
  if (args.a.address % 16 || args.b.address % 16 || args.y.address % 8)
    throw Error("gemm: a and b must be 16-byte aligned, y 8-byte aligned");
  const uint64_t blocks = ((uint64_t(args.m) + rows - 1) / rows) * ((uint64_t(args.n) + cols - 1) / cols);
  if (blocks > 0x7fffffff) throw Error("gemm: {} tiles, but a grid has at most 2147483647", blocks);
  return {.x = blocks ? uint32_t(blocks) : 1};  // an empty grid cannot be launched
}

Gemm gemm_choice(uint32_t m, uint32_t n, uint32_t k, uint32_t sms, uint32_t shared_bytes) {
  // Larger tiles of a warp read less shared memory per product, larger tiles of a block read less of L2, and smaller
  // tiles leave fewer SMs idle. The rates are products per clock and SM expected of an H200, where about 1250 are
  // possible without wgmma.
  struct Point {
    Gemm spec;
    double products;
  };
  static const Point points[] = {
      {{.rows = 128, .cols = 256, .warps_down = 2, .warps_along = 4, .depth = 64, .stages = 4}, 1100},
      {{.rows = 128, .cols = 128, .warps_down = 2, .warps_along = 2, .depth = 64, .stages = 3, .resident = 2}, 1000},
      {{.rows = 64, .cols = 256, .warps_down = 1, .warps_along = 4, .depth = 64, .stages = 4}, 950},
      {{.rows = 64, .cols = 128, .warps_down = 2, .warps_along = 2, .depth = 64, .stages = 4, .resident = 2}, 800},
      {{.rows = 64, .cols = 64, .warps_down = 2, .warps_along = 2, .depth = 64, .stages = 6, .resident = 2}, 600},
      {{.rows = 64, .cols = 32, .warps_down = 2, .warps_along = 1, .depth = 64, .stages = 8, .resident = 2}, 450},
      {{.rows = 32, .cols = 128, .warps_down = 1, .warps_along = 4, .depth = 64, .stages = 5, .resident = 2}, 600},
      {{.rows = 32, .cols = 64, .warps_down = 1, .warps_along = 4, .depth = 64, .stages = 8, .resident = 2}, 450},
      {{.rows = 32, .cols = 32, .warps_down = 1, .warps_along = 2, .depth = 64, .stages = 12, .resident = 2}, 350},
      {{.rows = 16, .cols = 128, .warps_down = 1, .warps_along = 4, .depth = 64, .stages = 6, .resident = 2}, 450},
      {{.rows = 16, .cols = 64, .warps_down = 1, .warps_along = 4, .depth = 64, .stages = 10, .resident = 2}, 300},
      {{.rows = 16, .cols = 32, .warps_down = 1, .warps_along = 2, .depth = 64, .stages = 12, .resident = 2}, 200},
  };
  constexpr double l2_bytes = 24;  // per clock and SM
  const Gemm* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [spec, products] : points) {
    if (spec.shared_bytes() > shared_bytes) continue;
    const double blocks = double((uint64_t(m) + spec.rows - 1) / spec.rows) * double((n + spec.cols - 1) / spec.cols);
    const double each = double(uint64_t(blocks + sms - 1) / sms);  // of an SM
    // clocks per value of k, and what the start and the end of a tile cost
    const double inner = std::max(spec.rows * spec.cols / products, (spec.rows + spec.cols) * 2 / l2_bytes);
    const double clocks = each * (inner * k + spec.rows * spec.cols * 4 / l2_bytes + 1500);
    if (clocks < least) {
      least = clocks;
      best = &spec;
    }
  }
  if (!best) throw Error("gemm: no tile fits {} bytes of shared memory", shared_bytes);
  return *best;
}

void add_gemm_kernels(std::vector<Entry>& all) { all.push_back(entry<Gemm>()); }

}  // namespace heddle::kernels
