// Cases of what runs at the memory limit: the streaming read and the ring product.
#include <algorithm>

#include "kernels/q8_1.h"
#include "kernels/ring_gemv.h"
#include "kernels/stream_read.h"
#include "proof/case.h"
#include "proof/random_blocks.h"

namespace heddle::proof {
namespace {

using kernels::QuantizeQ8_16;
using kernels::RingGemv;
using kernels::RingPack;
using kernels::StreamRead;

Case stream_read(StreamRead spec, uint64_t words, uint32_t blocks) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> data(words);
    for (auto& w : data) w = uint32_t(random.bits());
    const StreamRead::Args args{
        .sum = m.put(std::vector<uint32_t>{7}), .data = m.put(data), .words = words, .blocks = blocks};
    m.launch(spec, args);
    uint32_t want = 7;
    for (uint32_t w : data) want += w;
    check.equal("sum", m.get(args.sum, 1), {want});
  };
  return {"stream_read", fmt::format("{} words={} blocks={}", field_text(spec), words, blocks), "sm_75", run};
}

// x as quantize_q8_16 lays it out, and what it stands for.
struct Q8x16 {
  std::vector<uint8_t> bytes;
  std::vector<double> values;
};
Q8x16 quantize(const std::vector<float>& x) {
  Q8x16 r{std::vector<uint8_t>(x.size() * 3 / 2), std::vector<double>(x.size())};
  for (size_t b = 0; b < x.size() / 16; ++b) {
    float most = 0;
    for (size_t i = 0; i < 16; ++i) most = std::max(most, std::abs(x[b * 16 + i]));
    const float d = most / 127;
    int sum = 0;
    for (size_t i = 0; i < 16; ++i) {
      const int q = d > 0 ? int(std::nearbyint(x[b * 16 + i] / d)) : 0;
      sum += q;
      r.bytes[b * 16 + i] = uint8_t(int8_t(q));
      r.values[b * 16 + i] = double(d) * q;
    }
    const float pair[2] = {d, d * float(sum)};
    std::memcpy(r.bytes.data() + x.size() + b * 8, pair, 8);
  }
  return r;
}

Case ring(RingGemv spec, uint32_t rows, uint32_t blocks) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t cols = spec.slices * kernels::ring_tile_cols;
    const quant::Format format = kernels::ring_formats()[spec.format].format;
    const std::vector<uint8_t> w = random_blocks(random, format, size_t(rows) * cols, cols);
    const size_t count = size_t(rows) * spec.columns;
    std::vector<Q8x16> x;
    std::vector<uint8_t> x_bytes;
    for (uint32_t v = 0; v < spec.columns; ++v) {
      x.push_back(quantize(random.normals(cols)));
      x_bytes.insert(x_bytes.end(), x[v].bytes.begin(), x[v].bytes.end());
    }
    const std::vector<float> residual = random.normals(count);

    const uint64_t bytes = kernels::ring_bytes(spec.format, rows, cols);
    const RingPack::Args pack{.to = m.poisoned<uint8_t>(bytes), .from = m.put(w), .rows = rows, .cols = cols};
    m.launch(RingPack{.format = spec.format}, pack);
    const RingGemv::Args args{.y = m.poisoned<float>(count),
                              .residual = m.put(residual),
                              .x = m.put(x_bytes),
                              .w = pack.to,
                              .rows = rows,
                              .cols = cols,
                              .blocks = blocks,
                              .next = pack.to,
                              .next_bytes = uint32_t(bytes)};
    m.launch(spec, args);

    std::vector<double> want(count), scale(count);
    const size_t row_bytes = w.size() / std::max(rows, 1u);
    for (uint32_t r = 0; r < rows; ++r) {
      const DecodedRow row = decode_row(format, w.data() + r * row_bytes, cols);
      for (uint32_t v = 0; v < spec.columns; ++v) {
        double &sum = want[size_t(v) * rows + r], &magnitude = scale[size_t(v) * rows + r];
        sum = spec.add ? residual[size_t(v) * rows + r] : 0, magnitude = std::abs(sum);
        for (uint32_t c = 0; c < cols; ++c) {
          sum += row.w[c] * x[v].values[c];
          magnitude += (std::abs(row.w[c] - row.offset[c]) + std::abs(row.offset[c])) * std::abs(x[v].values[c]);
        }
      }
    }
    // a lane sums its 32 values exactly and rounds about ten times; 5 steps in the warp, then the slices
    check.near("y", m.get(args.y, count), want, scale, (16 + spec.slices) * 0x1p-24);
  };
  return {"ring_gemv", fmt::format("{} rows={} blocks={}", field_text(spec), rows, blocks), "sm_90", run};
}

// One channel of x far larger than the rest, as trained models have them: int8 blocks of 16 keep the damage to that
// block. Compared with the product of x as it was before quantising.
Case outlier(uint32_t format_index) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t rows = 256, cols = 4096;
    const quant::Format format = kernels::ring_formats()[format_index].format;
    const std::vector<uint8_t> w = random_blocks(random, format, size_t(rows) * cols, cols);
    std::vector<float> x = random.normals(cols);
    x[random.below(cols)] = 26;
    const RingPack::Args pack{.to = m.poisoned<uint8_t>(kernels::ring_bytes(format_index, rows, cols)),
                              .from = m.put(w),
                              .rows = rows,
                              .cols = cols};
    m.launch(RingPack{.format = format_index}, pack);
    const QuantizeQ8_16::Args q8{.y = m.poisoned<uint8_t>(cols * 3 / 2), .x = m.put(x), .rows = 1, .cols = cols};
    m.launch(QuantizeQ8_16{}, q8);
    const RingGemv::Args args{.y = m.poisoned<float>(rows),
                              .residual = {},
                              .x = q8.y,
                              .w = pack.to,
                              .rows = rows,
                              .cols = cols,
                              .blocks = 3,
                              .next = {},
                              .next_bytes = 0};
    m.launch(RingGemv{.format = format_index}, args);
    const std::vector<float> got = m.get(args.y, rows);
    double dot = 0, got2 = 0, want2 = 0, off2 = 0;
    for (uint32_t r = 0; r < rows; ++r) {
      const DecodedRow row = decode_row(format, w.data() + r * (w.size() / rows), cols);
      double want = 0;
      for (uint32_t c = 0; c < cols; ++c) want += double(row.w[c]) * x[c];
      dot += want * got[r], got2 += double(got[r]) * got[r], want2 += want * want;
      off2 += (got[r] - want) * (got[r] - want);
    }
    check.that(std::sqrt(off2 / want2) < 0.01, fmt::format("off by {:.4f} of the rms", std::sqrt(off2 / want2)));
    check.that(dot / std::sqrt(got2 * want2) > 0.9999, fmt::format("cosine {:.6f}", dot / std::sqrt(got2 * want2)));
  };
  return {"ring_gemv",
          fmt::format("format={} with an outlier of 26 rms", quant::name(kernels::ring_formats()[format_index].format)),
          "sm_90", run};
}

}  // namespace

void add_stream_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(stream_read({.threads = 64, .loads = 4}, 4096, 3));
  cases.push_back(ring({.format = 0, .slices = 2, .groups = 2, .depth = 2}, 40, 2));
  cases.push_back(ring({.format = 1, .slices = 2, .groups = 2, .depth = 2, .chained = 1, .add = 1}, 40, 2));
  if (sweep == Sweep::quick) return;
  for (uint64_t words : {0, 4, 8, 1020, 16384, 16388}) cases.push_back(stream_read({.threads = 96}, words, 2));
  for (uint32_t loads : {1, 2, 8}) cases.push_back(stream_read({.threads = 32, .loads = loads}, 2052, 5));
  for (uint32_t format : {0u, 1u}) {
    cases.push_back(outlier(format));
    for (uint32_t rows : {0u, 1u, 15u, 16u, 17u, 130u}) cases.push_back(ring({.format = format, .slices = 1}, rows, 3));
    for (uint32_t groups : {1u, 2u, 4u})
      for (uint32_t depth : {1u, 3u})
        cases.push_back(ring({.format = format, .slices = 3, .groups = groups, .depth = depth, .chained = 1}, 97, 2));
    cases.push_back(ring({.format = format, .slices = 14, .groups = 1, .depth = 2, .add = 1}, 35, 2));
    cases.push_back(ring({.format = format, .slices = 6, .groups = 1, .depth = 3, .per_warp = 2}, 99, 3));
    cases.push_back(ring({.format = format, .slices = 6, .groups = 4, .depth = 2, .chained = 1, .per_warp = 3}, 70, 2));
    for (uint32_t columns = 2; columns <= 8; ++columns)
      cases.push_back(
          ring({.format = format, .slices = 2, .groups = 2, .resident = 1, .columns = columns, .add = 1}, 50, 3));
    cases.push_back(ring({.format = format, .slices = 4}, 64, 132));  // most blocks have nothing to do
  }
  if (sweep == Sweep::normal) return;
  cases.push_back(stream_read({}, uint64_t(1) << 26, 132 * 4));
  for (uint32_t format : {0u, 1u}) {
    cases.push_back(ring({.format = format, .slices = 4, .chained = 1}, 6144, 132));
    cases.push_back(ring({.format = format, .slices = 14, .groups = 1, .chained = 1, .add = 1}, 4096, 132));
    cases.push_back(
        ring({.format = format, .slices = 4, .groups = 2, .resident = 1, .columns = 8, .chained = 1}, 4096, 132));
  }
}

}  // namespace heddle::proof
