#include "main/device/rank_group.h"

#include <signal.h>
#include <unistd.h>

#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/version.h"
#include "cpu/cpu.h"
#include "main/device/device_memory.h"
#include "main/device/running_model.h"

namespace heddle {
namespace {

constexpr uint32_t max_ranks = 256;

bool starts_ranks(const RankOptions& options) { return options.cpu_ranks > 0 || !options.gpus.empty(); }
uint32_t ranks_here(const RankOptions& options) {
  return options.gpus.empty() ? std::max(options.cpu_ranks, 1u) : uint32_t(options.gpus.size());
}

void check_rank_options(const RankOptions& options) {
  std::string first;
  const auto one_of = [&](bool given, const char* name) {
    if (!given) return;
    if (!first.empty()) throw Error("{}: expected no {} with it: each says which processes there are", name, first);
    first = name;
  };
  one_of(options.cpu_ranks > 0, "--cpu-ranks");
  one_of(!options.gpus.empty(), "--gpus");
  one_of(!options.launcher.empty(), "--launcher");
  if (options.socket < 0) one_of(options.rank || options.world, "--rank");
  if (options.rank.has_value() != options.world.has_value())
    throw Error("{}: expected {} with it, found none", options.rank ? "--rank" : "--world",
                options.rank ? "--world" : "--rank");
  if (options.rank && options.socket < 0 && options.leader.empty())
    throw Error("--rank: expected --leader HOST:PORT with it, found none");
  if (options.world && (*options.world == 0 || *options.rank >= *options.world))
    throw Error("--rank: expected a number below --world {}, found {}", *options.world, *options.rank);
  if (!options.leader.empty() && !options.rank && options.launcher.empty())
    throw Error("--leader: expected --rank or --launcher with it, found neither");
  if (options.expert_parallel && !options.asked())
    throw Error("--expert-parallel: expected several processes (--cpu-ranks, --gpus, --launcher or --rank), found one");
  if (!(options.join_seconds > 0)) throw Error("--join-seconds: expected more than 0, found {}", options.join_seconds);
}

ranks::Patience patience_of(const RankOptions& options) {
  ranks::Patience patience;
  patience.join = options.join_seconds;
  return patience;
}

// Options that make a difference to what is computed.
std::vector<std::pair<std::string, std::string>> common_options(const DeviceOptions& options, uint32_t rows) {
  std::vector<std::pair<std::string, std::string>> all{
      {"--ctx", std::to_string(options.context)},
      {"--kv", name_of(options.kv)},
      {"--backend", options.backend},
      {"--exact", options.exact ? "yes" : "no"},
      {"--deterministic", options.deterministic ? "yes" : "no"},
      {"--mtp", options.mtp ? "yes" : "no"},
      {"--pipeline", std::to_string(options.ranks.pipeline)},
      {"--expert-parallel", options.ranks.expert_parallel ? "yes" : "no"},
      {"tokens of the KV cache", std::to_string(options.cache_tokens)},
      {"sequences at once", std::to_string(options.at_once)},
      {"cache for many sequences", options.many ? "yes" : "no"},
      {"rows of a batch", std::to_string(rows)},
      {"--kv-host", std::to_string(options.ranks.store.memory)},
      {"--kv-disk", fmt::format("{},{}", options.ranks.store.folder, options.ranks.store.folder_bytes)},
  };
  if (options.device == "cpu" || options.ranks.cpu_ranks)
    all.emplace_back("instruction set", options.isa == "auto" ? cpu::isa_names().front() : options.isa);
  return all;
}

// The command line of a child: `follow`, which is not in the help.
std::vector<std::string> child_arguments(const std::string& model, const DeviceOptions& options, uint32_t rows,
                                         uint32_t rank, int socket, int memory) {
  std::vector<std::string> words{"follow", model};
  const auto add = [&](const char* name, auto value) {
    words.push_back(name);
    words.push_back(fmt::format("{}", value));
  };
  const RankOptions& ranks = options.ranks;
  add("--child-rank", rank);
  add("--child-socket", socket);
  add("--child-memory", memory);
  if (ranks.cpu_ranks) add("--cpu-ranks", ranks.cpu_ranks);
  if (!ranks.gpus.empty()) add("--gpus", fmt::format("{}", fmt::join(ranks.gpus, ",")));
  add("--pipeline", ranks.pipeline);
  add("--join-seconds", ranks.join_seconds);
  if (ranks.expert_parallel) words.push_back("--expert-parallel");
  add("--device", options.device);
  if (!options.backend.empty()) add("--backend", options.backend);
  add("--cpu-isa", options.isa);
  add("--threads", options.threads);
  if (options.cpu_memory) add("--cpu-memory", options.cpu_memory);
  if (options.gpu_memory) add("--gpu-memory", options.gpu_memory);
  add("--ctx", options.context);
  add("--kv", name_of(options.kv));
  add("--cache-tokens", options.cache_tokens);
  add("--at-once", options.at_once);
  add("--rows", rows);
  add("--store-memory", ranks.store.memory);
  if (!ranks.store.folder.empty()) {
    add("--store-folder", ranks.store.folder);
    add("--store-folder-bytes", ranks.store.folder_bytes);
  }
  if (options.many) words.push_back("--many");
  if (options.exact) words.push_back("--exact");
  if (options.no_repack) words.push_back("--no-repack");
  if (options.deterministic) words.push_back("--deterministic");
  if (options.no_selftest) words.push_back("--no-selftest");
  if (options.mtp) words.push_back("--mtp");
  return words;
}

// 64 bits of FNV-1a.
class Hash {
 public:
  void add(std::span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes) value_ = (value_ ^ byte) * 0x100000001b3;
  }
  void add(std::string_view text) { add(ranks::bytes_of(text)); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

std::unique_ptr<tiers::PartFolder> open_rank_folder(const RankStore& store, ranks::Group& group) {
  constexpr double patience = 10;  // for a group that ends, and that this one follows
  if (store.folder.empty()) return nullptr;
  try {
    return std::make_unique<tiers::PartFolder>(tiers::rank_folder(store.folder, group.rank(), group.ranks()),
                                               store.folder_bytes, patience);
  } catch (const Error& error) {
    group.fail(fmt::format("--kv-disk: {}", error.what()));
    throw Error("{}", group.alarm().why());
  }
}

ranks::Place rank_place(const RankOptions& options) {
  check_rank_options(options);
  ranks::Place place;
  if (starts_ranks(options)) {
    place.ranks = ranks_here(options);
    place.local = place.rank = options.socket >= 0 ? options.rank.value() : 0;
  } else if (!options.launcher.empty()) {
    place = ranks::launched_place(options.launcher, options.leader);
  } else if (options.rank) {
    place = {
        .rank = *options.rank, .ranks = *options.world, .leader = ranks::address_named(options.leader, "--leader")};
  }
  if (place.ranks > max_ranks) throw Error("expected up to {} ranks, found {}", max_ranks, place.ranks);
  if (options.pipeline == 0 || place.ranks % options.pipeline)
    throw Error("--pipeline: expected a divisor of {} ranks, found {}", place.ranks, options.pipeline);
  return place;
}

bool follows(const DeviceOptions& options) { return options.ranks.asked() && rank_place(options.ranks).rank > 0; }

std::string fingerprint(const formats::Checkpoint& checkpoint) {
  constexpr size_t looked_at = 64;  // bytes at both ends of each tensor
  Hash hash;
  for (const formats::Tensor& tensor : checkpoint.tensors) {
    hash.add(fmt::format("{} {} {}\n", tensor.name, quant::name(tensor.format), fmt::join(tensor.shape, "x")));
    const size_t count = std::min(looked_at, tensor.view.size());
    hash.add(tensor.view.first(count));
    hash.add(tensor.view.last(count));
  }
  return fmt::format("{} tensors, {:016x}", checkpoint.tensors.size(), hash.value());
}

RankGroup::RankGroup(const std::string& model, const std::string& fingerprint, const DeviceOptions& options,
                     uint32_t rows) {
  const RankOptions& with = options.ranks;
  const ranks::Place place = rank_place(with);
  const ranks::Terms terms{.version = version, .model = fingerprint, .options = common_options(options, rows)};
  ranks::GroupOptions group{.patience = patience_of(with), .stages = with.pipeline, .fate = {}, .stuck = {}};
  if (place.rank > 0)
    group.stuck = [rank = place.rank](const std::string& why) {
      const std::string line = fmt::format("heddle: rank {}: {}\n", rank, why);
      if (::write(STDERR_FILENO, line.data(), line.size()) < 0) ::_exit(2);
      ::_exit(1);
    };
  if (starts_ranks(with) && place.rank == 0) {
    children_ =
        std::make_unique<ranks::Children>("/proc/self/exe", place.ranks, [&](uint32_t rank, int socket, int memory) {
          return child_arguments(model, options, rows, rank, socket, memory);
        });
    group.fate = [children = children_.get()](uint32_t rank) { return children->fate(rank); };
    joined_ = ranks::lead_children(children_->take_sockets(), children_->take_memory(), terms, std::move(group));
  } else if (starts_ranks(with)) {
    joined_ = ranks::join_parent(with.socket, with.memory, place.rank, place.ranks, terms, std::move(group));
  } else if (place.rank == 0) {
    joined_ = ranks::lead_by_address(place.leader.port, place.ranks, terms, std::move(group));
  } else {
    joined_ = ranks::join_by_address(place.leader, place.rank, place.ranks, terms, std::move(group));
  }
}

// After a fault a rank that hangs does not end by itself.
RankGroup::~RankGroup() {
  constexpr double after_fault = 0.5;
  if (children_ && joined_.group && group().alarm().raised()) children_->end_within(after_fault);
}

void RankGroup::agree(const model::Model& own, uint32_t& context, model::Limits& limits) {
  constexpr uint64_t any = UINT32_MAX;
  const std::vector<uint64_t> all = group().smallest({context, limits.rows, limits.kv_blocks,
                                                      model::windows_of(own).all.empty() ? any : limits.window_blocks,
                                                      model::has_states(own) ? limits.state_slots : any});
  const auto or_none = [](uint64_t number) { return number == any ? 0 : uint32_t(number); };
  context = uint32_t(all[0]);
  limits.rows = uint32_t(all[1]);
  limits.kv_blocks = uint32_t(all[2]);
  limits.window_blocks = or_none(all[3]);
  limits.state_slots = or_none(all[4]);
}

DeviceOptions share_of_rank(DeviceOptions options) {
  if (!options.ranks.asked()) return options;
  const uint32_t here = ranks_here(options.ranks);
  if (options.threads == 0) options.threads = uint32_t(std::max<size_t>(1, hardware_threads() / here));
  if (options.cpu_memory == 0) options.cpu_memory = usable_on_cpu(options) / here;
  return options;
}

int follow_ranks(const std::string& model, const DeviceOptions& options, std::ostream& err, uint32_t rows) {
  // rank 0 finishes its requests and then ends the others; a signal to all of them is meant for it
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
  const auto say = [&err, rank = rank_place(options.ranks).rank](const Error& error) {
    err << fmt::format("heddle: rank {}: {}\n", rank, error.what()) << std::flush;
  };
  try {
    const auto running = open_running(model, options, nullptr, rows);
    ranks::Group& group = running->group->group();
    try {
      ranks::PartBuffers buffers(options.ranks.store.memory);
      const tiers::RankDisk disk(open_rank_folder(options.ranks.store, group), group, buffers, *running->backend);
      ranks::follow(running->own(), *running->backend, running->limits, group, &buffers);
      return 0;
    } catch (const Error& error) {  // the group has to end soon: what a model holds is left to the system
      say(error);
      ::_exit(1);
    }
  } catch (const Error& error) {
    say(error);
    return 1;
  }
}

}  // namespace heddle
