// Cases of embedding: bit for bit, and its timing.
#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/layer/embedding.h"
#include "proof/bench.h"
#include "proof/format/weights.h"

namespace heddle::proof {

namespace {

using kernels::Embedding;
using quant::Format;

Case embedding(const Embedding& spec, uint32_t vocabulary, uint32_t cols, uint32_t tokens, float scale) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const auto format = Format(spec.format);
    const std::vector<uint8_t> file = random_blocks(random, format, size_t(vocabulary) * cols, cols);
    std::vector<uint32_t> ids(tokens);
    for (uint32_t i = 0; i < tokens; ++i)  // the last row, ids that do not exist, any
      ids[i] = i == 0 ? vocabulary - 1 : i == 2 ? vocabulary : i == 3 ? 0xffffffff : random.below(vocabulary);
    constexpr uint32_t after = 5;  // values behind y that must stay as they are
    const size_t count = size_t(tokens) * cols;
    std::vector<float> before(count + after, std::bit_cast<float>(0xcccccccc));
    if (spec.add) before = random.normals(before.size());
    const Embedding::Args args{.y = m.put(before),
                               .table = m.put(tiles_of({format, vocabulary, cols, spec.tile_cols}, file)),
                               .ids = m.put(ids),
                               .tokens = tokens,
                               .cols = cols,
                               .vocabulary = vocabulary,
                               .scale = scale};
    m.launch(spec, args);
    std::vector<float> want = before, row(cols);
    for (uint32_t i = 0; i < tokens; ++i) {
      std::fill(row.begin(), row.end(), 0.0f);
      if (ids[i] < vocabulary) {
        quant::decode(format, file.data() + ids[i] * quant::row_bytes(format, cols), cols, row.data());
        for (float& v : row) v *= scale;
      }
      for (uint32_t c = 0; c < cols; ++c) {
        float& y = want[size_t(i) * cols + c];
        y = spec.add ? y + row[c] : row[c];
      }
    }
    check.equal("y", m.get(args.y, before.size()), want);
  };
  return {"embedding",
          fmt::format("{} vocabulary={} cols={} tokens={} scale={}", field_text(spec), vocabulary, cols, tokens, scale),
          spec.chained ? "sm_90" : "sm_75", run};
}

// 512 tokens of a vocabulary of 128256.
Bench embedding(quant::Format format) {
  constexpr uint32_t tokens = 512, cols = 4096, vocabulary = 128256;
  const size_t row = quant::row_bytes(format, cols);
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto table = m.poisoned<uint8_t>(row * vocabulary);  // the bits do not matter for the time
    std::vector<ptx::DevicePtr<uint32_t>> ids;
    for (uint32_t i = 0; i < 16; ++i) {
      std::vector<uint32_t> some(tokens);
      for (auto& id : some) id = random.below(vocabulary);
      ids.push_back(m.put(some));
    }
    const auto y = m.poisoned<float>(size_t(tokens) * cols);
    const kernels::Embedding spec{.format = uint32_t(format), .chained = 1};
    return [=](Machine& now, uint32_t r) {
      now.launch(spec, {.y = y,
                        .table = table,
                        .ids = ids[r % ids.size()],
                        .tokens = tokens,
                        .cols = cols,
                        .vocabulary = vocabulary,
                        .scale = 1});
    };
  };
  return {"embedding", fmt::format("{} {} x {}", quant::name(format), tokens, cols),
          "sm_75",     double(tokens) * (double(row) + cols * 4.0),
          0,           prepare};
}

}  // namespace

void add_embedding_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(embedding({}, 9, 512, 5, 1.0f));
  if (sweep == Sweep::quick) return;
  const std::vector<uint32_t> widths{256, 512, 1024};
  uint32_t turn = 0;
  for (Format f : kernels::known_formats) {
    const uint32_t id = uint32_t(f), width = widths[turn++ % 3], rows = kernels::tile_values / width;
    // floats may have any length; a row of the tile and a block more
    const uint32_t odd = quant::is_float(f) ? 77 : 3 * quant::block_values(f);
    const uint32_t more = width + (quant::is_float(f) ? 8 : quant::block_values(f));
    cases.push_back(embedding({.format = id, .tile_cols = width}, rows + 3, odd, 7, 1.0f));
    cases.push_back(embedding({.format = id, .tile_cols = width, .threads = 32, .add = 1}, 3, more, 1, 45.25f));
  }
  for (uint32_t width : widths) {
    cases.push_back(embedding({.tile_cols = width, .threads = 96, .chained = 1}, 3, 256, 0, 1.0f));
    cases.push_back(embedding({.format = 0, .tile_cols = width, .add = 1}, 5, 2 * width + 2, 4, 0.5f));
  }
  if (sweep != Sweep::full) return;
  for (Format f : kernels::known_formats) cases.push_back(embedding({.format = uint32_t(f)}, 1021, 4096, 33, 1.0f));
  for (Format f : {Format::q4_k, Format::q6_k, Format::bf16})
    cases.push_back(embedding({.format = uint32_t(f)}, 128'256, 4096, 33, 1.0f));
}

void add_embedding_benches(std::vector<Bench>& all) {
  for (Format format : {Format::q4_k, Format::f16}) all.push_back(embedding(format));
}

}  // namespace heddle::proof
