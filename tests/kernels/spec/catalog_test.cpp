// The catalog: every kernel builds, verifies and prints for its targets; wrong settings are refused with a reason.
#include "kernels/spec/catalog.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

#include "base/error.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_steps.h"
#include "kernels/layer/norm.h"
#include "kernels/product/gemv.h"
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
      {"attention",
       {"incremental_attention", "incremental_attention_indirect", "multi_warp_attention",
        "multi_warp_attention_indirect", "batched_incremental_attention", "paged_attention", "flash_decoding_chunk"}},
      {"gemv",
       {"tiled_q4k_gemv", "chunked_tiled_q4k_gemv", "coalesced_q4k_gemv", "wide_q4k_gemv", "vectorized_q4k_gemv",
        "mwv_q4k_gemv", "mwv_dp4a_q4k_gemv"}},
      {"gate", {"silu_gate", "gelu_gate", "silu", "gelu"}},
      {"sample", {"cluster_sample"}}};
  for (auto& [generator, presets] : promised)
    for (const char* name : presets) EXPECT_EQ(find(name).spec, generator) << name;
  for (const char* name : {"flash_decoding_reduce", "embedding", "rope", "rms_norm", "layer_norm", "causal_softmax",
                           "kv_scatter", "quantize_q8_1", "residual_add", "argmax", "sample"})
    EXPECT_EQ(find(name).spec, name);
  for (quant::Format format : gemv_formats) {
    std::string name(quant::name(format));
    if (name.ends_with("_k")) name.erase(name.size() - 2, 1);
    EXPECT_EQ(find(name + "_gemv").spec, "gemv") << name;
  }
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
  expect("q6k_gemv", {{"format", "q6_k"}});
  expect("tiled_q4k_gemv", {{"format", "q4_k"}, {"x", "staged"}, {"warps_per_row", "1"}});
  expect("chunked_tiled_q4k_gemv", {{"format", "q4_k"}, {"x", "chunked"}});
  expect("coalesced_q4k_gemv", {{"format", "q4_k"}, {"scales", "shuffled"}});
  expect("wide_q4k_gemv", {{"format", "q4_k"}, {"warps_per_row", "8"}});
  expect("vectorized_q4k_gemv", {{"format", "q4_k"}, {"load", "4"}});
  expect("mwv_q4k_gemv", {{"format", "q4_k"}, {"warps_per_row", "4"}});
  expect("mwv_dp4a_q4k_gemv", {{"format", "q4_k"}, {"x", "q8_1"}, {"warps_per_row", "3"}});
  expect("incremental_attention", {{"warps", "1"}, {"length", "direct"}, {"layout", "single"}});
  expect("incremental_attention_indirect", {{"warps", "1"}, {"length", "indirect"}});
  expect("multi_warp_attention", {{"warps", "8"}, {"length", "direct"}});
  expect("multi_warp_attention_indirect", {{"warps", "8"}, {"length", "indirect"}});
  expect("batched_incremental_attention", {{"layout", "batched"}, {"length", "indirect"}, {"split", "no"}});
  expect("flash_decoding_chunk", {{"split", "yes"}});
}

TEST(Catalog, FieldsCanBeSetToTheirDefaultsAndTakeEffect) {
  for (auto& e : catalog()) {
    EXPECT_FALSE(e.fields.empty()) << e.name;
    for (auto& [name, value] : e.fields) EXPECT_NO_THROW(e.build({{name, value}})) << e.name << " " << name;
  }
  EXPECT_EQ(find("rms_norm").build({{"threads", "64"}}).threads(), 64u);
  EXPECT_EQ(find("q4k_gemv").build({{"warps", "8"}}).threads(), 256u);
}

TEST(Catalog, RefusesWithTheFieldAndWhatIsAllowed) {
  EXPECT_EQ(message(find("embedding"), {{"thread", "64"}}),
            "embedding: there is no field \"thread\"; it has format, tile_cols, threads, add, chained");
  EXPECT_EQ(message(find("rms_norm"), {{"threads", "100"}}),
            "rms_norm: threads = \"100\" is not possible; it may be 32, 64, ... 1024");
  EXPECT_EQ(message(find("rms_norm"), {{"vec", "3"}}), "rms_norm: vec = \"3\" is not possible; it may be 1, 2, 4");
  EXPECT_EQ(message(find("q4k_gemv"), {{"warps", "0"}}), "q4k_gemv: warps = \"0\" is not possible; it may be 1 to 32");
  for (const char* bad : {"", "4x", "-4", "four", " 4", "4294967300"})
    EXPECT_NE(message(find("q4k_gemv"), {{"warps", bad}}), "") << bad;
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
  using G = Gemv::Args;
  expect_sizes_are_arguments(Gemv{.warps = 8}, 256, {offsetof(G, rows), offsetof(G, cols)}, {.rows = 3, .cols = 256},
                             {.rows = 128'256, .cols = 28'672});
  using A = Attention::Args;
  auto args = [](uint32_t sequences, uint32_t heads, uint32_t kv_heads, uint32_t length, uint32_t max_len) {
    A a{};
    a.sequences = sequences;
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.length = length;
    a.max_len = max_len;
    return a;
  };
  expect_sizes_are_arguments(Attention{.layout = kv_batched, .warps = 4}, 128,
                             {offset_in<A>(&A::length), offset_in<A>(&A::max_len), offset_in<A>(&A::heads),
                              offset_in<A>(&A::kv_heads), offset_in<A>(&A::sequences)},
                             args(1, 2, 1, 1, 16), args(200, 64, 8, 131'072, 131'072));
  using N = RmsNorm::Args;
  expect_sizes_are_arguments(RmsNorm{.threads = 64}, 64, {offsetof(N, rows), offsetof(N, cols), offsetof(N, eps)},
                             {.rows = 1, .cols = 8}, {.rows = 5000, .cols = 16'384});
  using R = Rope::Args;
  expect_sizes_are_arguments(
      Rope{.threads = 96}, 96,
      {offsetof(R, q_heads), offsetof(R, k_heads), offsetof(R, head_dim), offsetof(R, rotary_dim)},
      {.tokens = 1, .q_heads = 1, .k_heads = 1, .head_dim = 64, .rotary_dim = 64},
      {.tokens = 900,
       .q_heads = 64,
       .k_heads = 8,
       .head_dim = 128,
       .rotary_dim = 32,
       .q_out_stride = 8192,
       .q_stride = 8192,
       .k_out_stride = 1024,
       .k_stride = 1024});
  using K = KvScatter::Args;
  const KvScatter scatter{};
  expect_sizes_are_arguments(scatter, scatter.build().threads(),
                             {offsetof(K, kv_heads), offsetof(K, k_stride), offsetof(K, max_len)},
                             {.rows = 1, .kv_heads = 1, .k_stride = 128, .v_stride = 128, .max_len = 16},
                             {.rows = 700, .kv_heads = 8, .k_stride = 1024, .v_stride = 1024, .max_len = 131'072});
}

}  // namespace
}  // namespace heddle::kernels
