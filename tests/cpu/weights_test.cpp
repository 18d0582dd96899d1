// Weights that stay in the file: the same logits, bit by bit, as of weights that were packed while loading, in little
// memory.
#include "cpu/weights.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "base/memory.h"
#include "tests/cpu/small_features.h"
#include "tests/support/folder.h"
#include "tests/support/sanitized.h"

namespace heddle::test {
namespace {

using quant::Format;

constexpr model::Limits file_limits{.rows = 64, .kv_blocks = 8, .block_tokens = 16};

std::vector<float> logits_of(const model::Model& model, const cpu::Options& options) {
  return run(model, *cpu::make_cpu(model, file_limits, options), file_limits, {40, 1, 1, 5, 9, 2, 33});
}

void expect_same_without_repacking(const model::Model& model, const std::string& what) {
  std::vector<std::string> isas = cpu::isa_names();
  if (sanitized) isas.resize(1);  // which does not optimise kernels
  for (const std::string& isa : isas)
    for (const bool exact : {false, true}) {
      const std::vector<float> packed = logits_of(model, {.threads = 2, .isa = isa, .exact = exact});
      const std::vector<float> in_file = logits_of(model, {.threads = 2, .isa = isa, .exact = exact, .repack = false});
      ASSERT_EQ(packed.size(), in_file.size());
      EXPECT_TRUE(std::equal(packed.begin(), packed.end(), in_file.begin())) << what << " " << isa << " " << exact;
      EXPECT_TRUE(std::all_of(packed.begin(), packed.end(), [](float value) { return std::isfinite(value); })) << what;
    }
}

// 203 tokens: the last tile is not full.
TEST(WeightsInFile, LogitsAreThoseOfPackedWeights) {
  for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::q4_0, Format::q8_0, Format::q4_k,
                              Format::q5_k, Format::q6_k, Format::iq4_xs, Format::mxfp4, Format::iq2_xxs}) {
    Builder builder({.format = format, .layers = 1});
    expect_same_without_repacking(builder.model(), std::string(quant::name(format)));
  }
}

TEST(WeightsInFile, TiedMixturesAndLatentAttentionAreTheSame) {
  Builder tied({.format = Format::q6_k, .layers = 1, .tied = true}), experts = mixture(Format::q4_k);
  Builder latent({.format = Format::q8_0, .layers = 2, .heads = 6});
  add_latent(latent, 128, 64, 32, 64);
  expect_same_without_repacking(tied.model(), "tied");
  expect_same_without_repacking(experts.model(), "experts");
  expect_same_without_repacking(latent.model(), "latent attention");
}

// Tiles of 135 KB, more than are packed at once as a rule, and of less than a KB in the same model.
TEST(WeightsInFile, LargeTilesArePackedOneByOne) {
  Builder builder({.format = Format::q8_0, .layers = 1, .width = 64, .heads = 1, .kv_heads = 1, .inner = 16384});
  expect_same_without_repacking(builder.model(), "wide");
}

// Puts all matrices of a model into a file, from where they are read from now on.
class InFile {
 public:
  explicit InFile(model::Model& model) {
    std::ofstream out(folder_.path() / "weights", std::ios::binary);
    std::vector<std::pair<model::Matrix*, uint64_t>> all;
    uint64_t at = 0;
    const auto add = [&](const model::Matrix& matrix) {
      all.emplace_back(const_cast<model::Matrix*>(&matrix), at);
      out.write(reinterpret_cast<const char*>(matrix.data.data()), long(matrix.data.size()));
      at += matrix.data.size();
    };
    for (const model::Layer& layer : model.layers)
      for (const model::SublayerMatrix& one : model::matrices_of(layer)) add(*one.matrix);
    add(model.embedding);
    add(model.output);
    out.close();
    file_.emplace(folder_.path() / "weights");
    for (const auto& [matrix, place] : all) matrix->data = file_->bytes().subspan(place, matrix->data.size());
    model.storage.clear();
  }

 private:
  Folder folder_;
  std::optional<MappedFile> file_;
};

TEST(WeightsInFile, TakeNoMemoryOfTheirOwn) {
  Builder builder({.format = Format::q8_0, .layers = 2, .width = 512, .inner = 4096, .vocabulary = 4000});
  const model::Model& model = builder.model();
  const InFile file(builder.model());
  uint64_t bytes = model.embedding.data.size() + model.output.data.size();
  for (const model::Layer& layer : model.layers)
    for (const model::SublayerMatrix& one : model::matrices_of(layer)) bytes += one.matrix->data.size();
  const model::Limits limits{.rows = 1, .kv_blocks = 1};
  const cpu::Options in_file{.threads = 2, .repack = false}, packed{.threads = 2};

  const model::Memory planned = cpu::memory_needed(model, limits, in_file);
  EXPECT_EQ(planned.in_file, bytes);
  EXPECT_EQ(planned.weights, 0u);
  EXPECT_EQ(planned.total(), planned.kv + planned.workspace);
  EXPECT_EQ(cpu::memory_needed(model, limits, packed).in_file, 0u);

  std::vector<float> logits[2];
  if (sanitized) return;  // the memory of sanitizers would count
  const auto anonymous = [] { return kilobytes_at(contents("/proc/self/status"), "RssAnon"); };
  for (const bool repack : {false, true}) {
    const uint64_t before = anonymous();
    const auto backend = cpu::make_cpu(model, limits, repack ? packed : in_file);
    logits[repack] = run(model, *backend, limits, {1, 1, 1});
    const uint64_t taken = anonymous() - std::min(before, anonymous());
    if (repack)
      EXPECT_GT(taken, bytes / 2);
    else
      EXPECT_LT(taken, bytes / 4);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

// What was copied for a model stays in memory, with repacking or without.
TEST(WeightsInFile, CopiesAreCounted) {
  Builder builder({.format = Format::q8_0});
  const model::Memory planned = cpu::memory_needed(builder.model(), file_limits, {.repack = false});
  EXPECT_EQ(planned.in_file, 0u);
  EXPECT_GT(planned.weights, builder.model().embedding.data.size());
}

TEST(WeightsInFile, TheBackendSaysSo) {
  Builder builder({.format = Format::q8_0, .layers = 1});
  EXPECT_NE(cpu::make_cpu(builder.model(), file_limits, {.repack = false})->describe().find("read from the file"),
            std::string::npos);
}

}  // namespace
}  // namespace heddle::test
