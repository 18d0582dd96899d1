// heddle follow: a rank that another heddle has started on this machine. Not in the help.
#include <CLI/CLI.hpp>
#include <memory>

#include "main/commands/commands.h"
#include "main/device/rank_group.h"

namespace heddle {

void describe_follow(CLI::App& program, std::ostream& err, int& status) {
  struct FollowOptions {
    std::string model;
    DeviceOptions device;
    uint32_t rows = 0;
  };
  const auto options = std::make_shared<FollowOptions>();
  DeviceOptions& device = options->device;
  CLI::App* command = program.add_subcommand("follow", "Compute a part of a model for another process")->group("");
  describe_required_model(*command, options->model);
  describe_device(*command, device);
  describe_ranks(*command, device.ranks);
  command->add_option_function<uint32_t>("--child-rank", [&device](uint32_t rank) { device.ranks.rank = rank; });
  command->add_option("--child-socket", device.ranks.socket)->required();
  command->add_option("--child-memory", device.ranks.memory)->required();
  command->add_option("--cache-tokens", device.cache_tokens);
  command->add_option("--at-once", device.at_once);
  command->add_option("--rows", options->rows);
  command->add_option("--store-memory", device.ranks.store.memory);
  command->add_option("--store-folder", device.ranks.store.folder);
  command->add_option("--store-folder-bytes", device.ranks.store.folder_bytes);
  command->add_flag("--many", device.many);
  command->add_flag("--mtp", device.mtp);
  command->callback([options, &err, &status] {
    RankOptions& ranks = options->device.ranks;
    ranks.world = ranks.gpus.empty() ? ranks.cpu_ranks : uint32_t(ranks.gpus.size());
    status = follow_ranks(options->model, options->device, err, options->rows);
  });
}

}  // namespace heddle
