// The catalog: every kernel builds, verifies and prints for its targets; wrong settings are refused with a reason.
#include "kernels/spec/catalog.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

#include "base/error.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/layer/embedding.h"
#include "kernels/layer/norm.h"
#include "kernels/product/product.h"
#include "ptx/expand.h"
#include "ptx/print.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

std::string message(const Entry& e, const std::map<std::string, std::string>& set) {
  try {
    e.build(set);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
const Entry& find(const std::string& name) {
  for (auto& e : catalog())
    if (e.name == name) return e;
  throw Error("no kernel {}", name);
}

TEST(Catalog, NamesAreUniqueAndHaveASummary) {
  std::set<std::string> names;
  for (auto& e : catalog()) {
    EXPECT_TRUE(names.insert(e.name).second) << e.name;
    EXPECT_FALSE(e.summary.empty()) << e.name;
  }
}

// What a decoder needs, by the names that users know; a preset with the generator that it sets the fields of.
TEST(Catalog, HasEveryKernelThatUsersKnow) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> promised{
      {"product", {"product", "async_product"}},
      {"mma_product", {"mma_product", "async_mma_product"}},
      {"cluster_attention", {"cluster_attention", "async_attention"}},
      {"gate", {"silu_gate", "gelu_gate", "silu", "gelu"}},
      {"sample", {"sample", "cluster_sample"}}};
  for (auto& [generator, presets] : promised)
    for (const char* name : presets) EXPECT_EQ(find(name).spec, generator) << name;
  for (const char* name : {"mma_tiles", "wgmma_product", "prompt_attention", "wgmma_attention", "any_attention",
                           "heads", "embedding", "rms_norm", "layer_norm", "half_rows", "top_tokens"})
    EXPECT_EQ(find(name).spec, name);
}

TEST(Catalog, EveryKernelPrintsForEveryTargetFromItsLowest) {
  for (auto& e : catalog()) {
    const ptx::Kernel built = e.build({});
    for (auto& t : ptx::targets()) {
      if (!runs_on(e.lowest_target, t)) continue;
      const ptx::Kernel kernel = ptx::expanded(built, t);
      EXPECT_NO_THROW(ptx::verify(kernel, t)) << e.name << " " << t.name;
      EXPECT_NE(ptx::print(kernel, t).find(".entry " + kernel.name), std::string::npos) << e.name << " " << t.name;
    }
  }
}

// The defaults of a preset's fields are its own, not those of the generator.
TEST(Catalog, PresetsHaveTheirOwnDefaults) {
  auto expect = [](const char* name, const std::map<std::string, std::string>& values) {
    const auto& fields = find(name).fields;
    const std::map<std::string, std::string> all(fields.begin(), fields.end());
    for (auto& [field, value] : values) EXPECT_EQ(all.at(field), value) << name << " " << field;
  };
  expect("silu_gate", {{"act", "silu"}, {"times_up", "yes"}});
  expect("gelu_gate", {{"act", "gelu_tanh"}, {"times_up", "yes"}});
  expect("silu", {{"act", "silu"}, {"times_up", "no"}});
  expect("gelu", {{"act", "gelu_erf"}, {"times_up", "no"}});
  expect("product", {{"copies", "bulk"}});
  expect("async_product", {{"copies", "async"}, {"groups", "2"}});
  expect("async_mma_product", {{"copies", "async"}, {"band", "16"}});
  expect("async_attention", {{"copies", "async"}, {"splits", "1"}, {"warps", "2"}});
  expect("sample", {{"splits", "1"}});
  expect("cluster_sample", {{"splits", "16"}});
}

TEST(Catalog, FieldsCanBeSetToTheirDefaultsAndTakeEffect) {
  for (auto& e : catalog()) {
    EXPECT_FALSE(e.fields.empty()) << e.name;
    for (auto& [name, value] : e.fields) EXPECT_NO_THROW(e.build({{name, value}})) << e.name << " " << name;
  }
  EXPECT_EQ(find("rms_norm").build({{"threads", "64"}}).threads(), 64u);
  EXPECT_EQ(find("async_attention").build({{"warps", "1"}}).threads(), 32u);
}

TEST(Catalog, RefusesWithTheFieldAndWhatIsAllowed) {
  EXPECT_EQ(message(find("embedding"), {{"thread", "64"}}),
            "embedding: there is no field \"thread\"; it has format, tile_cols, threads, add, chained");
  EXPECT_EQ(message(find("rms_norm"), {{"threads", "100"}}),
            "rms_norm: threads = \"100\" is not possible; it may be 32, 64, ... 1024");
  EXPECT_EQ(message(find("rms_norm"), {{"vec", "3"}}), "rms_norm: vec = \"3\" is not possible; it may be 1, 2, 4");
  EXPECT_EQ(message(find("async_attention"), {{"stages", "0"}}),
            "async_attention: stages = \"0\" is not possible; it may be 1 to 16");
  for (const char* bad : {"", "4x", "-4", "four", " 4", "4294967300"})
    EXPECT_NE(message(find("async_attention"), {{"stages", bad}}), "") << bad;
}

// Where an argument lies, in a struct that may derive from another.
template <class Args, class M, class Owner>
size_t offset_in(M Owner::*member) {
  static const Args args{};
  return size_t(reinterpret_cast<const char*>(&(args.*member)) - reinterpret_cast<const char*>(&args));
}

// One text for all sizes: it is for the spec's threads and reads the sizes at launch, so the grid alone differs.
template <class Spec>
void expect_sizes_are_arguments(const Spec& spec, uint32_t threads, std::initializer_list<size_t> read_at,
                                const typename Spec::Args& small, const typename Spec::Args& large) {
  const std::string text = ptx::print(spec.build(), ptx::target("sm_90a")), directive = ".reqntid ";
  const size_t at = text.find(directive);
  ASSERT_NE(at, std::string::npos) << Spec::name;
  EXPECT_EQ(text.substr(at, text.find('\n', at) - at), fmt::format(".reqntid {}, 1, 1", threads)) << Spec::name;
  EXPECT_EQ(text.find(directive, at + 1), std::string::npos) << Spec::name;
  EXPECT_NE(text.find(fmt::format("args[{}]", sizeof small)), std::string::npos) << Spec::name;
  for (size_t offset : read_at)
    EXPECT_NE(text.find(fmt::format("[args+{}]", offset)), std::string::npos) << Spec::name << " " << offset;
  const ptx::Grid a = spec.grid(small), b = spec.grid(large);
  EXPECT_LT(uint64_t(a.x) * a.y * a.z, uint64_t(b.x) * b.y * b.z) << Spec::name;
}

TEST(Catalog, SizesAreArgumentsNotText) {
  using P = Product::Args;
  expect_sizes_are_arguments(Product{.groups = 2, .copies = copies_async}, 9 * 32,
                             {offsetof(P, rows), offsetof(P, cols), offsetof(P, y_stride), offsetof(P, x_stride)},
                             {.rows = 16, .cols = 4000, .x_stride = 4000, .y_stride = 16, .blocks = 1},
                             {.rows = 128'256, .cols = 4096, .x_stride = 4096, .y_stride = 128'256, .blocks = 264});
  using A = ClusterAttention::Args;
  auto args = [](uint32_t sequences, uint32_t heads, uint32_t kv_heads, uint32_t page_size) {
    A a{};
    a.sequences = sequences;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.page_size = page_size;
    return a;
  };
  expect_sizes_are_arguments(
      ClusterAttention{.layout = kv_paged, .splits = 1, .rows = 4, .warps = 2, .copies = copies_async}, 64,
      {offset_in<A>(&A::heads), offset_in<A>(&A::kv_heads), offset_in<A>(&A::page_size), offset_in<A>(&A::sequences)},
      args(1, 2, 1, 16), args(200, 64, 8, 64));
  using N = RmsNorm::Args;
  expect_sizes_are_arguments(RmsNorm{.threads = 64}, 64, {offsetof(N, rows), offsetof(N, cols), offsetof(N, eps)},
                             {.rows = 1, .cols = 8}, {.rows = 5000, .cols = 16'384});
  using E = Embedding::Args;
  expect_sizes_are_arguments(
      Embedding{.threads = 64}, 64, {offsetof(E, tokens), offsetof(E, cols), offsetof(E, vocabulary)},
      {.tokens = 1, .cols = 256, .vocabulary = 2}, {.tokens = 700, .cols = 8192, .vocabulary = 128'256});
  using H = Heads::Args;
  const Heads heads{};
  expect_sizes_are_arguments(
      heads, heads.build().threads(),
      {offsetof(H, heads), offsetof(H, kv_heads), offsetof(H, head), offsetof(H, dimensions)},
      {.rows = 1, .heads = 1, .kv_heads = 1, .head = 64, .value_head = 64, .dimensions = 64, .page_size = 16},
      {.rows = 900,
       .heads = 64,
       .kv_heads = 8,
       .head = 128,
       .value_head = 128,
       .q_stride = 8192,
       .k_stride = 1024,
       .v_stride = 1024,
       .dimensions = 32,
       .page_size = 64});
}

}  // namespace
}  // namespace heddle::kernels
