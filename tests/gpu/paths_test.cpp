// Which kernels a batch takes, by its rows, the options and the GPU: the tables of paths.h.
#include "gpu/paths.h"

#include <map>
#include <mutex>
#include <set>

#include "base/ptxas.h"
#include "gpu/gpu.h"
#include "kernels/spec/catalog.h"
#include "model/forward.h"
#include "ptx/print.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/gpu/small_model.h"
#include "tests/ptx/assemble_all.h"
#include "tests/support/ranks_in_memory.h"

namespace heddle::gpu {
namespace {

using cuda::message;
using Names = std::set<std::string>;
using Shape = std::vector<std::pair<uint32_t, uint32_t>>;  // new tokens of each sequence, and how many came before

class PathsOfBatches : public FakeGpu {
 protected:
  // Those of `kernels` that the layers of a model launch for a batch.
  Names launched_for(const model::Model& model, const Options& options, const Shape& shape, const Names& kernels) {
    Options lazy = options;
    lazy.preload = false;
    lazy.build_kernel = [this](const kernels::AnySpec& spec, const ptx::Target& target) {
      BuiltKernel built = kept_kernels().build(spec, target);
      std::lock_guard lock(mutex_);
      kernels_.insert(built.kernel);
      return built;
    };
    auto backend =
        make_gpu(model, {.rows = 200, .kv_blocks = 400, .block_tokens = 32, .kv = kv_, .state_slots = 64}, lazy);
    model::Batch batch = batch_of(shape);
    batch.outputs.clear();  // no head: it has products of its own
    const size_t before = launches();
    model::forward(model, *backend, batch);
    backend->result();
    Names found;
    for (const std::string& kernel : kernels_since(before))
      if (kernels.contains(kernel)) found.insert(kernel);
    return found;
  }
  Names products(const Options& options, uint32_t rows) {
    return launched_for(wide_.model, options, Shape(rows, {1, 30}),
                        {"product", "mma_product", "mma_tiles", "wgmma_product"});
  }
  Names attention(const model::Model& model, const Options& options, const Shape& shape) {
    return launched_for(model, options, shape,
                        {"cluster_attention", "wgmma_attention", "prompt_attention", "any_attention"});
  }

  WideModel wide_;
  model::KvFormat kv_ = model::KvFormat::f16;
  std::mutex mutex_;
  std::set<std::shared_ptr<const ptx::Kernel>> kernels_;  // so far
  const Options exact_{.exact = true}, deterministic_{.deterministic = true};
};

TEST_F(PathsOfBatches, ProductsFollowFromTheNumberOfRows) {
  for (uint32_t rows : {1u, 2u}) EXPECT_EQ(products({}, rows), Names{"product"}) << rows;
  for (uint32_t rows : {3u, 8u, max_few_rows}) EXPECT_EQ(products({}, rows), Names{"mma_product"}) << rows;
  for (uint32_t rows : {max_few_rows + 1, 200u}) EXPECT_EQ(products({}, rows), Names{"wgmma_product"}) << rows;
  for (uint32_t rows : {1u, 3u, 65u}) {
    EXPECT_EQ(products(exact_, rows), Names{"product"}) << rows;
    EXPECT_EQ(products(deterministic_, rows), Names{"mma_product"}) << rows;
  }
  control().sm = 100;  // without wgmma
  EXPECT_EQ(products({}, 1), Names{"product"});
  EXPECT_EQ(products({}, max_few_rows), Names{"mma_product"});
  for (uint32_t rows : {max_few_rows + 1, 200u}) EXPECT_EQ(products({}, rows), Names{"mma_tiles"}) << rows;
  EXPECT_EQ(products(deterministic_, 65), Names{"mma_product"});
}

TEST_F(PathsOfBatches, ExpertsFollowFromTheNumberOfRows) {
  SmallModel small;
  small.mix(6, 2);
  auto experts = [&](const Options& options, uint32_t rows) {
    return launched_for(small.model, options, Shape(rows, {1, 30}),
                        {"router", "route", "group_rows", "mma_tiles", "wgmma_product"});
  };
  for (uint32_t rows : {1u, 2u, 8u}) EXPECT_EQ(experts({}, rows), Names{"router"}) << rows;
  EXPECT_EQ(experts({}, 9), (Names{"route", "group_rows"}));  // three rows of an expert: mma_product
  for (uint32_t rows : {65u, 200u})
    EXPECT_EQ(experts({}, rows), (Names{"route", "group_rows", "wgmma_product"})) << rows;
  for (uint32_t rows : {9u, 65u, 200u}) EXPECT_EQ(experts(exact_, rows), Names{"route"}) << rows;
  for (uint32_t rows : {1u, 9u}) EXPECT_EQ(experts(deterministic_, rows), Names{"route"}) << rows;
  control().sm = 100;  // without wgmma
  EXPECT_EQ(experts({}, 9), (Names{"route", "group_rows"}));
  EXPECT_EQ(experts({}, 65), (Names{"route", "group_rows", "mma_tiles"}));
  EXPECT_EQ(experts(exact_, 65), Names{"route"});
}

TEST_F(PathsOfBatches, AttentionFollowsFromTheRowsOfEachSequence) {
  const Shape tokens{{1, 3}, {1, 40}}, prompt{{7, 2}}, both{{1, 9}, {20, 3}};
  for (const Options& options : {Options{}, exact_}) {
    EXPECT_EQ(attention(wide_.model, options, tokens), Names{"cluster_attention"});
    EXPECT_EQ(attention(wide_.model, options, prompt), Names{"prompt_attention"});
    EXPECT_EQ(attention(wide_.model, options, both), (Names{"cluster_attention", "prompt_attention"}));
  }
  for (const Shape& shape : {tokens, prompt, both})
    EXPECT_EQ(attention(wide_.model, deterministic_, shape), Names{"cluster_attention"});
}

// wgmma_attention computes whole tiles of 128 rows, one block for each and head.
TEST_F(PathsOfBatches, AttentionToPromptsFollowsFromTheTiles) {
  const Shape prompt{{60, 0}}, beside{{1, 9}, {1, 4}, {60, 0}}, pieces{{10, 3}, {10, 0}, {10, 8}};
  EXPECT_EQ(attention(wide_.model, {}, prompt), Names{"prompt_attention"});  // 4 blocks for 132 SMs
  control().sms = 8;
  EXPECT_EQ(attention(wide_.model, {}, prompt), Names{"wgmma_attention"});
  EXPECT_EQ(attention(wide_.model, {}, beside), (Names{"cluster_attention", "wgmma_attention"}));
  EXPECT_EQ(attention(wide_.model, {}, pieces), Names{"prompt_attention"});
  EXPECT_EQ(attention(wide_.model, exact_, prompt), Names{"prompt_attention"});
  EXPECT_EQ(attention(wide_.model, deterministic_, prompt), Names{"cluster_attention"});
  control().sm = 100;
  EXPECT_EQ(attention(wide_.model, {}, prompt), Names{"prompt_attention"});
}

TEST_F(PathsOfBatches, AttentionFollowsFromTheHeads) {
  const Shape both{{1, 9}, {20, 3}};
  SmallModel small;  // heads of 16
  for (const Options& options : {Options{}, exact_, deterministic_})
    EXPECT_EQ(attention(small.model, options, both), Names{"any_attention"});
  auto set_heads = [](SmallModel& m, uint32_t heads, uint32_t kv_heads, uint32_t size) {
    model::Attention& a = m.attention();
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.head = a.value_head = size;
    a.q = m.matrix(heads * size, 64);
    a.k = a.v = m.matrix(kv_heads * size, 64);
    a.output = m.matrix(64, heads * size);
    SmallModel::set_rope(a, model::Rope::Style::halves, size);
  };
  SmallModel grouped;  // 9 query heads to a kv head
  set_heads(grouped, 9, 1, 64);
  EXPECT_EQ(attention(grouped.model, {}, both), (Names{"cluster_attention", "prompt_attention"}));
  EXPECT_EQ(attention(grouped.model, deterministic_, both), Names{"cluster_attention"});
  SmallModel of_80;  // no multiple of 32
  set_heads(of_80, 4, 2, 80);
  EXPECT_EQ(attention(of_80.model, {}, both), (Names{"cluster_attention", "prompt_attention"}));
  SmallModel of_512;
  set_heads(of_512, 4, 2, 512);
  EXPECT_EQ(attention(of_512.model, {}, both), (Names{"cluster_attention", "prompt_attention"}));
  cuda::treat_gpus_as("sm_75");  // has too little shared memory
  EXPECT_EQ(attention(of_512.model, {}, both), Names{"any_attention"});
  EXPECT_EQ(attention(of_80.model, {}, both), (Names{"cluster_attention", "prompt_attention"}));
  cuda::treat_gpus_as("");
  kv_ = model::KvFormat::q8;
  EXPECT_EQ(attention(of_512.model, {}, both), (Names{"cluster_attention", "prompt_attention"}));
  EXPECT_EQ(attention(of_80.model, {}, both), Names{"any_attention"});
  EXPECT_EQ(attention(grouped.model, {}, both), (Names{"cluster_attention", "prompt_attention"}));
}

// Sinks, slopes, chunks and both directions change the kernels, not which is taken; but a row that sees both directions
// by distance is not the last of what it sees, which cluster_attention takes it for.
TEST_F(PathsOfBatches, AttentionToWholeTextsFollowsFromTheirRows) {
  const Shape texts{{60, 0}, {1, 0}}, short_texts{{10, 0}, {7, 0}, {1, 0}};
  model::Attention& a = wide_.attention();
  const auto all = [&](const Options& options, const Shape& shape) {
    for (model::Layer& layer : wide_.model.layers) layer.get<model::Attention>() = a;
    return attention(wide_.model, options, shape);
  };
  a.causal = false;
  a.sinks = a.slopes = model::Vector(4, 0.5f);
  control().sms = 8;
  EXPECT_EQ(all({}, {{60, 0}}), Names{"wgmma_attention"});
  EXPECT_EQ(all({}, {{1, 0}, {60, 0}}), (Names{"cluster_attention", "wgmma_attention"}));
  EXPECT_EQ(all({}, short_texts), Names{"prompt_attention"});
  EXPECT_EQ(all(deterministic_, texts), Names{"any_attention"});
  a.slopes.clear();
  EXPECT_EQ(all(deterministic_, texts), Names{"cluster_attention"});
  a.window = 8;
  EXPECT_EQ(all(deterministic_, texts), Names{"any_attention"});
  EXPECT_EQ(all({}, short_texts), Names{"prompt_attention"});
}

TEST_F(PathsOfBatches, AnOlderGpuIsRefused) {
  control().sm = 70;
  EXPECT_EQ(message<Error>([&] { make_gpu(wide_.model, {.rows = 8, .kv_blocks = 1}); }),
            "cuda:0 Fake GPU 0 has compute capability 7.0, but models run on 7.5 (Turing) and later");
}

// As every target, whatever the options and the rows, kernels verify for it: they need no more than it has.
TEST_F(PathsOfBatches, SlowEveryTargetHasKernelsForAllRows) {
  SmallModel mixture;
  mixture.mix(6, 2);
  const Names steps{"cluster_attention", "prompt_attention"};
  control().sm = 120;
  for (const char* target : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    cuda::treat_gpus_as(target);
    kernels_.clear();
    for (const Options& options : {Options{}, exact_, deterministic_}) {
      const Names taken =
          launched_for(wide_.model, options, {{1, 9}, {60, 3}}, {"product", "mma_product", "mma_tiles"});
      EXPECT_EQ(taken, Names{options.exact           ? "product"
                             : options.deterministic ? "mma_product"
                                                     : "mma_tiles"})
          << target;
      EXPECT_EQ(attention(wide_.model, options, {{1, 9}, {60, 3}}),
                options.deterministic ? Names{"cluster_attention"} : steps)
          << target;
    }
    const bool clusters = std::string(target) >= "sm_90" || std::string(target).size() > 5;
    EXPECT_EQ(launched_for(mixture.model, {}, {{1, 3}}, {"router", "route"}), Names{clusters ? "router" : "route"})
        << target;
    if (!ptxas_found()) continue;
    std::set<std::string> texts;
    for (const auto& kernel : kernels_)
      texts.insert(ptx::print(*kernel, target_for(cuda::devices()[0]), {.lines = false}));
    for (const Assembled& one : ptx::assemble_all({texts.begin(), texts.end()}, target))
      EXPECT_TRUE(one.ok && one.spill_bytes == 0) << target << "\n" << one.log;
  }
  cuda::treat_gpus_as("");
}

// 16384 values as f32 are more than the 64 KB of sm_75: rounded to f16 they go to the matrix units.
TEST_F(PathsOfBatches, AVectorThatDoesNotFitGoesToTheMatrixUnits) {
  SmallModel wide;
  wide.ffn().gate = wide.ffn().up = wide.matrix(16384, 64);
  wide.ffn().down = wide.matrix(64, 16384);
  const Names both{"product", "mma_product"};
  EXPECT_EQ(launched_for(wide.model, {}, {{1, 3}}, both), Names{"product"});
  cuda::treat_gpus_as("sm_75");
  EXPECT_EQ(launched_for(wide.model, {}, {{1, 3}}, both), both);
  EXPECT_EQ(message<Error>([&] {
              launched_for(wide.model, exact_, {{1, 3}}, both);
            }),
            "a product of 16384 columns does not fit the GPU's registers and shared memory");
  cuda::treat_gpus_as("");
}

TEST_F(PathsOfBatches, LongRunsOfRowsChangeStatesInChunks) {
  SmallModel small;
  small.make_recurrent();
  const Names by_rows{"recurrence"}, in_chunks{"recurrence_prepare", "recurrence_scan"};
  Names both = in_chunks;
  both.merge(Names(by_rows));
  const auto launched = [&](const Options& options, const Shape& shape) {
    return launched_for(small.model, options, shape, both);
  };
  const uint32_t enough = min_chunked_rows;
  EXPECT_EQ(launched({}, {{1, 3}}), by_rows);
  EXPECT_EQ(launched({}, Shape(40, {1, 3})), by_rows);
  EXPECT_EQ(launched({}, {{enough - 1, 0}, {enough - 1, 3}}), by_rows);
  EXPECT_EQ(launched({}, {{enough, 0}}), in_chunks);
  EXPECT_EQ(launched({}, {{enough, 7}, {60, 0}}), in_chunks);
  EXPECT_EQ(launched({}, {{1, 3}, {enough, 0}}), both);
  EXPECT_EQ(launched({}, {{enough, 0}, {2, 3}}), both);
  EXPECT_EQ(launched(exact_, {{60, 0}}), by_rows);
  EXPECT_EQ(launched(deterministic_, {{60, 0}}), by_rows);
  cuda::treat_gpus_as("sm_75");
  EXPECT_EQ(launched({}, {{60, 0}}), by_rows);
  cuda::treat_gpus_as("sm_80");
  EXPECT_EQ(launched({}, {{60, 0}}), in_chunks);
  cuda::treat_gpus_as("");
  model::Recurrence& r = small.model.layers[0].get<model::Recurrence>();
  r.key = kernels::max_chunked_key + 1;
  r.mixed = small.matrix(2 * r.key + 32, 64);
  r.convolution.weight.assign((2 * r.key + 32) * 4, 0.5f);
  EXPECT_EQ(launched({}, {{60, 0}}), by_rows);
}

// A kernel that nothing runs is not kept: every kernel of the catalogue is launched for some model, batch and GPU.
TEST_F(PathsOfBatches, EveryKernelOfTheCatalogueIsLaunched) {
  // heads of 16 with norms, soft-capped logits, a norm before the residual, gate and up in different formats
  SmallModel odd;
  odd.attention().q_norm = odd.attention().k_norm = SmallModel::norm(16);
  odd.model.logit_softcap = 30;
  odd.model.norm.kind = model::Norm::Kind::layer;
  odd.attention().output_norm = SmallModel::norm(64);
  odd.ffn().up = odd.matrix(96, 64, quant::Format::f16);
  SmallModel mixture;
  mixture.mix(6, 2);
  SmallModel latent;
  latent.make_latent();
  SmallModel recurrent;
  recurrent.make_recurrent();
  SmallModel streams;
  streams.make_streams();
  SmallModel beside;  // a dense feed-forward beside experts, with norms
  beside.mix(6, 2);
  model::Mixture& m = beside.mixture();
  m.shared.emplace(odd.ffn());
  m.experts_norm = m.output_norm = m.shared->output_norm = SmallModel::norm(64);
  for (const char* target : {"sm_75", "sm_90", ""}) {
    cuda::treat_gpus_as(target);
    control().sms = 8;  // prompts that fill them go to wgmma_attention
    for (const model::Model* model :
         {&wide_.model, &odd.model, &mixture.model, &latent.model, &recurrent.model, &streams.model, &beside.model}) {
      auto backend =
          make_gpu(*model, {.rows = 200, .kv_blocks = 400, .block_tokens = 32, .state_slots = 9}, {.preload = false});
      for (const Shape& shape : {Shape{{1, 3}}, Shape(9, {1, 3}), Shape{{60, 0}}, Shape{{1, 9}, {60, 3}}}) {
        model::Batch batch = batch_of(shape);
        batch.picking.assign(batch.outputs.size(), model::Picking{.logprob = true, .top = 2});
        model::forward(*model, *backend, batch);
        backend->result();
        std::vector<uint8_t> bytes(backend->kv_part_bytes(model::KvPart::block));
        if (!bytes.empty()) backend->write_kv({model::KvPart::block, 0}, bytes);
        batch.states = {0};
        model::forward(*model, *backend, batch);
        backend->result();
      }
    }
  }
  cuda::treat_gpus_as("");
  {  // a prompt whose latents become keys and values
    latent.model.context = min_expanded_rows;
    const model::Limits limits{.rows = min_expanded_rows, .kv_blocks = min_expanded_rows / 32, .block_tokens = 32};
    auto backend = make_gpu(latent.model, limits, {.preload = false});
    model::Batch batch = batch_of({{min_expanded_rows, 0}});
    for (uint32_t i = 2; i < limits.kv_blocks; ++i) batch.blocks[0].push_back(i);
    model::forward(latent.model, *backend, batch);
    backend->result();
  }
  {  // experts by rank, and norms over the heads of all ranks
    model::Attention& a = mixture.attention();
    a.q_norm = SmallModel::norm(a.heads * a.head);
    a.k_norm = SmallModel::norm(a.kv_heads * a.head);
    const model::Limits limits{.rows = 200, .kv_blocks = 400, .block_tokens = 32};
    test::RanksBackend ranks(mixture.model, limits, 2, {.expert_parallel = true},
                             [](const model::Model& part, const model::Limits& of_rank, model::Collective& group) {
                               return make_gpu(
                                   part, of_rank,
                                   {.ranks = {.group = &group, .sums = RankOptions::Sums::own}, .preload = false});
                             });
    model::forward(mixture.model, ranks, batch_of({{1, 3}}));
  }
  read_bandwidth(cuda::Context());
  const Calls launched = kernels_since(0);
  const Names all(launched.begin(), launched.end());
  for (const kernels::Entry& entry : kernels::catalog())
    EXPECT_TRUE(all.contains(entry.spec)) << entry.name << " of " << entry.file;
}

TEST_F(PathsOfBatches, AreToldOfEachGpu) {
  const std::map<uint32_t, const char*> expected{{70, "none"},     {75, "loads and mma"}, {80, "cp.async and mma"},
                                                 {89, "cp.async"}, {90, "wgmma"},         {100, "clusters"},
                                                 {120, "clusters"}};
  for (const auto& [sm, start] : expected) EXPECT_EQ(path_text({.sm = sm}).find(start), 0u) << sm;
  EXPECT_EQ(path_text({.sm = 90, .specific = false}).find("clusters"), 0u);
}

}  // namespace
}  // namespace heddle::gpu
