// Ranks as processes on one GPU or several: that their sums are right, how long they take, and that what they compute
// together is what one computes alone.
//
// ranks_on_gpu [--gpus 0,0] sums [LAUNCHES]   random sums through peer memory and by NCCL, then the time of both
// ranks_on_gpu [--gpus 0,0] models [NAME ...] models of tests/model/fixtures beside the reference; run it in the root
//                                             of the tree
// ranks_on_gpu [--gpus 0,0] file MODEL [N]    a model beside one GPU: logits of a prompt, and N greedy tokens
// --sums own|nccl: one way of summing for models and files; --experts: whole experts by rank
// --exact: activations are not quantised
//
// A GPU may be named several times: its processes take turns, which is right and slow. Exits 0 if all is right, 1 if
// not, 2 if it cannot be tried.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "base/error.h"
#include "cpu/cpu.h"
#include "formats/checkpoint.h"
#include "gpu/gpu.h"
#include "gpu/rank_sums.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/shard.h"
#include "ranks/shared_memory.h"
#include "tests/model/fixture.h"
#include "tests/support/closeness.h"

namespace heddle::test {
namespace {

using gpu::RankOptions;

constexpr double first_use = 60;  // seconds: a rank may still assemble kernels that another one has in its cache

struct RanksToTry {
  std::vector<uint32_t> gpus{0, 0};
  std::string what = "sums";
  std::vector<std::string> names;
  RankOptions::Sums sums = RankOptions::Sums::automatic;
  bool experts = false, exact = false;
};

void say(const model::Collective& group, const std::string& line) {
  if (group.rank() != 0) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void wait_for_all(model::Collective& group) {
  float nothing = 0;
  group.sum({&nothing, 1});
}

// Whether all ranks found the same, and nothing wrong.
bool all_agree(model::Collective& group, bool good) {
  float wrong = good ? 0 : 1;
  group.sum({&wrong, 1});
  return wrong == 0;
}

// --- sums -----------------------------------------------------------------------------------------------------------
std::vector<float> part_of(uint64_t seed, uint32_t rank, size_t count) {
  std::mt19937_64 rng(seed * 64 + rank);
  std::vector<float> part(count);
  for (float& v : part) v = float(int64_t(rng()) >> 40) * std::ldexp(1.0f, int(rng() % 16) - 30);
  return part;
}

struct SumsOfRank {
  SumsOfRank(const cuda::Context& context, model::Collective& to_meet, RankOptions::Sums how)
      : group(to_meet),
        library(context, nullptr),
        recorder(library, false),
        stream(context),
        sums(context, {.group = &to_meet, .sums = how}, 4096) {}
  model::Collective& group;
  gpu::Library library;
  gpu::Recorder recorder;
  cuda::Stream stream;
  gpu::RankSums sums;
};

void expect_alive(const gpu::RankSums& sums) {
  if (const std::string why = sums.failure(); !why.empty()) throw Error("{}", why);
}

bool check_sums(SumsOfRank& rank, const cuda::Context& context, uint32_t launches, bool in_order) {
  std::mt19937_64 rng(7);
  cuda::Buffer values(context, 4 << 20);
  uint64_t rows = 0, wrong = 0, numbers = 0;
  for (uint32_t launch = 0; launch < launches; ++launch) {
    const size_t count = 1 + rng() % (1 << (1 + rng() % 20));
    std::vector<float> want;
    for (uint32_t r = 0; r < rank.group.ranks(); ++r) {
      const std::vector<float> part = part_of(launch, r, count);
      if (r == rank.group.rank()) values.write(part.data(), count * 4);
      want.resize(count, 0);
      for (size_t i = 0; i < count; ++i) want[i] = r ? want[i] + part[i] : part[i];
    }
    rank.recorder.begin();
    rank.sums.sum(rank.recorder, values.address(), count);
    rank.recorder.plan.run(rank.stream);
    rank.stream.synchronize();
    expect_alive(rank.sums);
    const std::vector<float> found = values.get<float>(count);
    // NCCL adds in an order of its own
    for (size_t i = 0; i < count; ++i)
      wrong += in_order ? found[i] != want[i] : std::abs(found[i] - want[i]) > 1e-5f * (1 + std::abs(want[i]));
    rows += (count + 4095) / 4096;
    numbers += count;
  }
  const bool good = all_agree(rank.group, wrong == 0);
  say(rank.group,
      fmt::format("{} {}: {} launches, {} rows, {} values{}", good ? "ok    " : "FAILED", rank.sums.describe(),
                  launches, rows, numbers, wrong ? fmt::format(", {} wrong on rank 0", wrong) : ""));
  return good;
}

// Microseconds of a sum, one after another in a graph.
double time_of(SumsOfRank& rank, const cuda::Context& context, uint64_t bytes) {
  constexpr uint32_t in_graph = 20, graphs = 10;
  cuda::Buffer values(context, bytes);
  values.fill(0);
  rank.recorder.begin();
  for (uint32_t i = 0; i < in_graph; ++i) rank.sums.sum(rank.recorder, values.address(), bytes / 4);
  rank.recorder.plan.run(rank.stream);
  cuda::Graph graph = rank.recorder.plan.graph(context);
  graph.launch(rank.stream);
  rank.stream.synchronize();
  wait_for_all(rank.group);
  cuda::Event start(context), end(context);
  start.record(rank.stream);
  for (uint32_t i = 0; i < graphs; ++i) graph.launch(rank.stream);
  end.record(rank.stream);
  rank.stream.synchronize();
  expect_alive(rank.sums);
  return double(end.milliseconds_since(start)) * 1e3 / (in_graph * graphs);
}

bool try_sums(const RanksToTry& how, model::Collective& group, const cuda::Context& context) {
  const uint32_t launches = how.names.empty() ? 8000 : uint32_t(std::stoul(how.names[0]));
  std::optional<SumsOfRank> own, by_nccl;
  own.emplace(context, group, RankOptions::Sums::own);
  bool good = check_sums(*own, context, launches, true);
  try {
    by_nccl.emplace(context, group, RankOptions::Sums::nccl);
    good = check_sums(*by_nccl, context, std::min(launches, 50u), false) && good;
  } catch (const Error& error) {
    say(group, fmt::format("no NCCL: {}", error.what()));
  }
  say(group, "   bytes   own us  NCCL us");
  for (uint64_t bytes = 4 << 10; bytes <= 4 << 20; bytes *= 4) {
    const double ours = time_of(*own, context, bytes), theirs = by_nccl ? time_of(*by_nccl, context, bytes) : NAN;
    say(group, fmt::format("{:8} {:8.1f} {:8.1f}", bytes, ours, theirs));
  }
  return good;
}

// --- models ---------------------------------------------------------------------------------------------------------
// A sequence, with the first blocks and the first slot.
model::Batch next_rows(const model::Model& model, const model::Limits& limits, std::span<const uint32_t> tokens,
                       uint32_t first, bool picks) {
  model::Batch batch;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.tokens.push_back(tokens[i]);
    batch.positions.push_back(first + i);
    batch.sequences.push_back(0);
    if (!picks) batch.outputs.push_back(i);
  }
  if (picks) {
    batch.outputs.push_back(uint32_t(tokens.size()) - 1);
    batch.picking.emplace_back(model::Picking());
  }
  batch.blocks.emplace_back();
  for (uint32_t i = 0; i < limits.kv_blocks; ++i) batch.blocks[0].push_back(i);
  if (model::has_states(model)) batch.slots.push_back(0);
  return batch;
}

std::vector<float> logits_of(const model::Model& model, model::Backend& backend, const model::Batch& batch) {
  model::forward(model, backend, batch);
  const std::span<const float> logits = backend.result().logits;
  return {logits.begin(), logits.end()};
}

bool try_model(const RanksToTry& how, model::Collective& group, const std::string& name) {
  const Folder folder;
  const Fixture fixture(name);
  fixture.write(folder, fixture.config, quant::Format::f16);
  const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
  const model::Model shard = model::shard_of(model, group.rank(), group.ranks(), {.expert_parallel = how.experts});
  const model::Limits limits{.rows = 64, .kv_blocks = 8, .block_tokens = 16, .state_slots = 1};
  const auto reference = cpu::make_reference(model, limits);
  const auto backend = gpu::make_gpu(shard, limits,
                                     {.device = how.gpus[group.rank()],
                                      .ranks = {.group = &group, .sums = how.sums, .timeout = first_use},
                                      .preload = false});
  double least = 1;
  const auto length = uint32_t(fixture.ids.size());
  for (uint32_t done = 0, count = length / 2; done < length; done += count, count = 1) {
    const model::Batch batch = next_rows(model, limits, std::span(fixture.ids).subspan(done, count), done, false);
    least = std::min(
        least, least_cosine(logits_of(model, *reference, batch), logits_of(shard, *backend, batch), model.vocabulary));
  }
  const bool good = all_agree(group, least >= 0.9999);
  say(group, fmt::format("{} {}: cosine {:.7f}", good ? "ok    " : "FAILED", name, least));
  return good;
}

// --- files ----------------------------------------------------------------------------------------------------------
constexpr uint32_t prompt_tokens = 100;

struct Found {
  std::vector<float> logits;
  std::vector<uint32_t> ids;
  double step = 0;  // milliseconds
};

Found found_by(const model::Model& model, const model::Limits& limits, model::Backend& backend, uint32_t count) {
  std::vector<uint32_t> text;
  for (uint32_t i = 0; i < prompt_tokens; ++i)
    text.push_back(uint32_t(i * 7919ull + 11) % std::min(model.vocabulary, 20000u));
  Found found;
  found.logits = logits_of(model, backend, next_rows(model, limits, text, 0, false));
  model::forward(model, backend, next_rows(model, limits, text, 0, true));
  found.ids.push_back(backend.result().picked[0]->id);
  // steps that follow one another, up to four of them ahead of their results
  const auto start = std::chrono::steady_clock::now();
  uint32_t begun = 0;
  const model::Batch first = next_rows(model, limits, std::span(&found.ids[0], 1), prompt_tokens, true);
  const model::Batch next{.follows = true};
  while (found.ids.size() < count) {
    for (; begun < count - 1 && begun < found.ids.size() + 3; ++begun)
      model::forward(model, backend, begun ? next : first);
    found.ids.push_back(backend.result().picked[0]->id);
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  found.step = taken.count() / std::max(count - 1, 1u);
  return found;
}

bool try_file(const RanksToTry& how, model::Collective& group) {
  const uint32_t count = how.names.size() > 1 ? uint32_t(std::stoul(how.names[1])) : 64;
  const model::Model model = model::load(formats::open_checkpoint(how.names.at(0)), {.context = prompt_tokens + count});
  const uint32_t block = 32;
  const model::Limits limits{
      .rows = 128, .kv_blocks = (prompt_tokens + count + block - 1) / block, .block_tokens = block, .state_slots = 1};
  const uint32_t device = how.gpus[group.rank()];
  Found alone;
  if (group.rank() == 0) {
    const auto backend = gpu::make_gpu(model, limits, {.device = device, .exact = how.exact, .preload = false});
    alone = found_by(model, limits, *backend, count);
  }
  wait_for_all(group);
  const model::Model shard = model::shard_of(model, group.rank(), group.ranks(), {.expert_parallel = how.experts});
  const auto backend = gpu::make_gpu(shard, limits,
                                     {.device = device,
                                      .exact = how.exact,
                                      .ranks = {.group = &group, .sums = how.sums, .timeout = first_use},
                                      .preload = false});
  say(group, backend->describe());
  for (const model::CutCount& cut : model::count_cuts(shard))
    say(group, fmt::format("       {}: {} cut, {} whole", cut.kind, cut.cut, cut.whole));
  const Found together = found_by(shard, limits, *backend, count);
  bool good = true;
  if (group.rank() == 0) {
    const double least = least_cosine(alone.logits, together.logits, model.vocabulary);
    const std::vector<double> all = cosines(alone.logits, together.logits, model.vocabulary);
    const auto close = std::count_if(all.begin(), all.end(), [](double cosine) { return cosine >= 0.9999; });
    size_t same = 0;
    while (same < count && alone.ids[same] == together.ids[same]) ++same;
    good = least >= 0.9999;
    say(group, fmt::format("{} {}: cosine {:.7f}, {} of {} at least 0.9999, {} of {} greedy tokens the same; {:.2f} ms "
                           "a step, alone {:.2f} ms",
                           good ? "ok    " : "FAILED", model.name, least, close, prompt_tokens, same, count,
                           together.step, alone.step));
  }
  return all_agree(group, good);
}

// --- processes ------------------------------------------------------------------------------------------------------
bool run_rank(const RanksToTry& how, model::Collective& group) {
  const bool shared = std::set(how.gpus.begin(), how.gpus.end()).size() < how.gpus.size();
  if (shared) {  // NCCL takes no two ranks on one GPU unless they seem to be on different machines
    setenv("NCCL_HOSTID", fmt::format("rank{}", group.rank()).c_str(), 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
  }
  if (how.what == "sums") return try_sums(how, group, cuda::Context(how.gpus[group.rank()]));
  if (how.what == "file") return try_file(how, group);
  if (how.what != "models") throw Error("expected sums, models or file, found {}", how.what);
  std::vector<std::string> names = how.names.empty() ? Fixture::one_of_each_class() : how.names;
  bool good = true;
  for (const std::string& name : names) good = try_model(how, group, name) && good;
  return good;
}

RanksToTry parse(const std::vector<std::string>& args) {
  RanksToTry how;
  std::vector<std::string> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--gpus") {
      how.gpus.clear();
      const std::string list = args.at(++i) + ",";
      for (size_t at = 0, end; (end = list.find(',', at)) != std::string::npos; at = end + 1)
        how.gpus.push_back(uint32_t(std::stoul(list.substr(at, end - at))));
    } else if (args[i] == "--sums") {
      how.sums = args.at(++i) == "own" ? RankOptions::Sums::own : RankOptions::Sums::nccl;
    } else if (args[i] == "--exact") {
      how.exact = true;
    } else if (args[i] == "--experts") {
      how.experts = true;
    } else {
      rest.push_back(args[i]);
    }
  }
  if (how.gpus.size() < 2) throw Error("--gpus: expected one for each of two or more ranks");
  if (!rest.empty()) {
    how.what = rest[0];
    how.names.assign(rest.begin() + 1, rest.end());
  }
  return how;
}

// The processes begin before anything asks for a GPU: a driver does not survive a fork.
int run_processes(const RanksToTry& how) {
  const auto ranks = uint32_t(how.gpus.size());
  const int memory = ranks::make_shared_memory(ranks);
  std::vector<pid_t> processes;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    if (process < 0) throw Error("a process for rank {} cannot be started", rank);
    if (process == 0) {
      int status = 2;
      try {
        ranks::Alarm alarm;
        const auto group = ranks::open_shared_memory(memory, rank, ranks, alarm, {.collective = 300});
        status = run_rank(how, *group) ? 0 : 1;
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", rank, error.what());
      }
      std::fflush(nullptr);
      _exit(status);
    }
    processes.push_back(process);
  }
  int worst = 0;
  for (uint32_t left = ranks; left > 0; --left) {
    int status = 0;
    std::erase(processes, wait(&status));
    const int now = WIFEXITED(status) ? WEXITSTATUS(status) : 2;
    if (now == 2)  // the others would wait for it
      for (const pid_t process : processes) kill(process, SIGKILL);
    worst = std::max(worst, now);
  }
  close(memory);
  return worst;
}

}  // namespace
}  // namespace heddle::test

int main(int count, char** args) {
  try {
    return heddle::test::run_processes(heddle::test::parse({args + 1, args + count}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
