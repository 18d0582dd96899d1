// Options that every command with an engine has, described and checked once.
#include "main/serve/engine_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

using engine::Speculation;

constexpr double longest_stall = 3.6e6;  // an hour

Speculation speculation_of(const std::string& name) {
  if (const auto speculation = engine::speculation_named(name)) return *speculation;
  throw Error("--speculate: expected auto, on or off, found {}", in_quotes(name));
}

}  // namespace

void describe_engine(CLI::App& command, EngineChoices& choices) {
  const auto option = [&command](const char* name, auto& value, const char* text, const char* type) {
    command.add_option(name, value, text)->type_name(type);
  };
  option("--max-stall-ms", choices.max_stall, "Longest pause that prompts may cause in running streams", "MS");
  command.add_flag("--no-prefix-cache", choices.no_prefix_cache, "Do not reuse the KV cache of equal prompt prefixes");
  option("--speculate", choices.speculation, "Speculative decoding: auto (while it pays), on or off", "WHEN");
  describe_kv_tiers(command, choices.kv);
  option("--rows", choices.rows, "Maximum tokens in a batch; 0: 512 on the CPU, 2048 on a GPU", "N");
}

engine::EngineOptions engine_options(const EngineChoices& choices) {
  if (!(choices.max_stall > 0) || choices.max_stall > longest_stall)
    throw Error("--max-stall-ms: expected more than 0 and at most {:g} milliseconds, found {}", longest_stall,
                choices.max_stall);
  if (choices.no_prefix_cache && choices.kv.host_bytes())
    throw Error("{}: expected a prefix cache, found --no-prefix-cache", choices.kv.host ? "--kv-host" : "--kv-disk");
  if (choices.rows == 1) throw Error("--rows: expected at least 2, found 1");
  return {.max_stall = choices.max_stall / 1000,
          .prefix_cache = !choices.no_prefix_cache,
          .speculation = speculation_of(choices.speculation)};
}

}  // namespace heddle
