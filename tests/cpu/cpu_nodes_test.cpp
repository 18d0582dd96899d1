// The backend on a machine of two NUMA nodes: on a made-up one, where threads run and what comes out; on a real one,
// also where memory lies. CONTRIBUTING.md says how to boot one.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "cpu/isa.h"
#include "cpu/weights.h"
#include "tests/cpu/small_model.h"
#include "tests/cpu/two_nodes.h"

namespace heddle::test {
namespace {

using quant::Format;
using List = std::vector<uint32_t>;

constexpr model::Limits node_limits{.rows = 64, .kv_blocks = 8, .block_tokens = 16};

// The first node has one processor, so no thread may have all of them; the caller is free again after each step.
TEST(CpuNodes, TheCallerRunsOnItsNodeWhileItComputes) {
  const TwoNodes system;
  if (system.nodes.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  const List before = allowed_processors(), own = system.nodes[0].processors;
  Builder builder({.format = Format::q8_0, .layers = 1});
  const model::Model& model = builder.model();
  int packed = 0;
  const auto progress = [&](uint64_t, uint64_t) {
    ++packed;
    EXPECT_EQ(allowed_processors(), own);
  };
  const auto backend = cpu::make_cpu(model, node_limits, {.threads = 2, .progress = progress, .root = system.root()});
  EXPECT_GT(packed, 0);
  EXPECT_EQ(allowed_processors(), before);

  model::Batch batch;
  batch.tokens = {5};
  batch.positions = batch.sequences = batch.outputs = {0};
  batch.blocks = {{0}};
  for (int step = 0; step < 2; ++step) {
    backend->begin(batch);
    EXPECT_EQ(allowed_processors(), own);
    backend->begin(batch);  // as after a step that has failed
    backend->embed();
    for (uint32_t sublayer = 0; sublayer < 2; ++sublayer) {
      backend->compute(0, sublayer);
      backend->add(0, sublayer);
    }
    EXPECT_EQ(allowed_processors(), own);
    backend->head();
    EXPECT_EQ(allowed_processors(), before);
    backend->result();
  }
}

TEST(CpuNodes, ResultsAreThoseOfOneNode) {
  const TwoNodes system;
  if (system.nodes.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  Builder dense({.format = Format::q4_k, .layers = 2}), experts = mixture(Format::q8_0);
  for (const Builder* builder : {&dense, &experts})
    for (const uint32_t threads : {1u, 2u, 3u, 5u}) {
      const model::Model& model = const_cast<Builder*>(builder)->model();
      const List batches = {40, 1, 1, 5};
      const auto logits = [&](const cpu::Options& options) {
        return run(model, *cpu::make_cpu(model, node_limits, options), node_limits, batches);
      };
      const std::vector<float> expected = logits({.threads = 1, .root = "/nowhere"});
      EXPECT_EQ(logits({.threads = threads, .root = system.root()}), expected) << threads;
    }
}

// The nodes of this machine; none where one of them has no memory.
std::vector<Node> nodes_with_memory() {
  std::string line;
  std::ifstream file("/sys/devices/system/node/has_memory");
  std::getline(file, line);
  const List numbers = processors_in(line);  // a list of numbers, as that of processors
  std::vector<Node> nodes = nodes_with(allowed_processors());
  for (const Node& node : nodes)
    if (std::find(numbers.begin(), numbers.end(), node.number) == numbers.end()) return {};
  return nodes;
}

// The number of this process's mappings that are interleaved across nodes.
size_t interleaved_mappings() {
  size_t count = 0;
  std::ifstream maps("/proc/self/numa_maps");
  for (std::string line; std::getline(maps, line);) count += line.find(" interleave") != std::string::npos;
  return count;
}

TEST(CpuNodes, TheCacheIsInterleaved) {
  const TwoNodes system;
  if (system.nodes.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  cpu::Pages pages(1);
  pages.interleave(system.nodes);
  if (interleaved_mappings() == 0) GTEST_SKIP() << "the system interleaves no memory";
  Builder builder({.format = Format::q8_0, .layers = 1});
  const size_t before = interleaved_mappings();
  const auto on_one = cpu::make_cpu(builder.model(), node_limits, {.threads = 2, .root = "/nowhere"});
  EXPECT_EQ(interleaved_mappings(), before);
  const auto on_two = cpu::make_cpu(builder.model(), node_limits, {.threads = 2, .root = system.root()});
  EXPECT_GT(interleaved_mappings(), before);
}

// The number of the node that has each page from `first` on, as the system tells it.
std::vector<int> nodes_of_pages(const uint8_t* first, uint64_t bytes) {
  const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), start = reinterpret_cast<uint64_t>(first) / page * page;
  std::vector<void*> pages;
  for (uint64_t at = start; at < reinterpret_cast<uint64_t>(first) + bytes; at += page)
    pages.push_back(reinterpret_cast<void*>(at));
  std::vector<int> nodes(pages.size(), -1);
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0) nodes.clear();
  return nodes;
}

// Matrices of 9 to 18 MB. A thread's part of a matrix is on its node but for the large pages and chunks that it shares
// with its neighbours, also at both ends of the matrix.
TEST(CpuNodes, WeightsLieOnTheNodesOfTheirThreads) {
  const std::vector<Node> nodes = nodes_with_memory();
  if (nodes.size() < 2) GTEST_SKIP() << "this process may use one NUMA node alone";
  for (const uint32_t threads : {uint32_t(allowed_processors().size()), 3u}) {
    model::Model model;
    model.width = 2048;
    model.vocabulary = 64;
    std::vector<uint8_t> bytes(32 << 20);
    model::FeedForward f;
    const auto matrix = [&](uint64_t rows, uint64_t cols, uint64_t at) {
      return model::Matrix{Format::q8_0, rows, cols, std::span(bytes).subspan(at, rows * cols / 32 * 34)};
    };
    f.gate = matrix(8192, 2048, 0);
    f.up = matrix(4096, 2176, 64);
    f.down = matrix(2048, 8192, 128);
    model.layers.push_back({.sublayers = {f}});
    cpu::Team team(threads);
    const cpu::ModelWeights weights(model, cpu::choose_isa("auto"), {}, team);
    std::map<int, uint64_t> pages_of;
    uint64_t compared = 0;
    for (const cpu::Weights& one : weights.all()) {
      const std::vector<int> found = nodes_of_pages(one.data, one.tiles() * one.tile_bytes);
      ASSERT_FALSE(found.empty());
      const double slack = double(3 << 20) / double(one.tiles() * one.tile_bytes);
      for (size_t i = 0; i < found.size(); ++i) {
        ++pages_of[found[i]];
        const double place = double(i) / double(found.size());
        const auto node_at = [&](double at) {
          return nodes[node_of_thread(nodes, uint32_t(at * threads), threads)].number;
        };
        if (place < slack || place + slack >= 1) continue;
        if (node_at(place - slack) == node_at(place + slack)) {
          ++compared;
          ASSERT_EQ(found[i], int(node_at(place))) << one.rows << " rows, page " << i << " of " << found.size();
        }
      }
    }
    EXPECT_EQ(pages_of.size(), nodes.size()) << "nodes with weights";
    EXPECT_GT(compared, 2000u);
  }
}

// 32 MB: eight large pages on each of two nodes.
TEST(CpuNodes, InterleavedPagesLieOnAllNodes) {
  const std::vector<Node> nodes = nodes_with_memory();
  if (nodes.size() < 2) GTEST_SKIP() << "this process may use one NUMA node alone";
  cpu::Pages pages(32 << 20, cpu::Pages::Size::large);
  pages.interleave(nodes);
  std::fill_n(pages.data(), pages.bytes(), uint8_t(1));
  const std::vector<int> found = nodes_of_pages(pages.data(), pages.bytes());
  ASSERT_FALSE(found.empty());
  for (const Node& node : nodes) {
    const uint64_t here = uint64_t(std::count(found.begin(), found.end(), int(node.number)));
    EXPECT_EQ(here, found.size() / nodes.size()) << "node " << node.number;
  }
}

}  // namespace
}  // namespace heddle::test
