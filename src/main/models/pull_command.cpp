#include "main/models/pull_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/clock.h"
#include "base/memory.h"
#include "main/commands/commands.h"
#include "main/process.h"
#include "main/progress.h"

namespace heddle {
namespace {

std::string source_of(const store::PullPlan& plan, const store::Remotes& remotes) {
  return plan.name.source == store::RemoteName::Source::hub ? remotes.hub : plan.name.host;
}

// The name that the model has on this machine now.
std::string name_at(const std::filesystem::path& path, const std::string& otherwise) {
  for (const store::FoundModel& model : store::find_models(store::model_places()))
    if (model.path == path) return model.name;
  return otherwise;
}

}  // namespace

store::PullOptions pull_options(const PullSettings& settings) {
  if (settings.connections < 1 || settings.connections > 32)
    throw Error("--connections: expected 1 to 32, found {}", settings.connections);
  store::PullOptions options{.store = store::own_store(), .remotes = store::remotes_of_process()};
  options.download.connections = settings.connections;
  options.download.http.ca_file = options.remotes.ca_file;
  return options;
}

int pull_model(const store::PullPlan& plan, store::PullOptions options, std::ostream* out, std::ostream& err) {
  const Interrupt interrupt;
  options.download.http.stop = options.download.retries.stop = &interrupt.flag();
  const std::string name = plan.name.text();
  const auto start = Clock::now();
  ProgressLine progress(&err);
  const auto say = [&](const std::string& line) { progress.message(err, line); };
  options.download.retries.on_retry = say;
  options.on_wait = [&](pid_t process) {
    say(fmt::format("{} is being pulled by {}; waiting for it", name,
                    process ? fmt::format("process {}", process) : "another process"));
  };
  options.on_progress = [&](const store::PullProgress& now) {
    if (now.phase == store::PullProgress::Phase::verify)
      progress.show(fmt::format("{}: verifying {} %", name, now.total ? 100 * now.done / now.total : 100));
    else
      progress.transfer(name, now.done, now.total);
  };
  bool is_new = false;
  try {
    say(fmt::format("{}: {} from {}", name, bytes_text(double(plan.bytes)), source_of(plan, options.remotes)));
    is_new = store::pull(plan, options);
  } catch (const store::HttpStopped&) {
    say(fmt::format("interrupted; heddle pull {} goes on from here", name));
    return 130;
  }
  progress.clear();
  const std::string local = name_at(plan.opens, name);
  if (is_new)
    err << fmt::format("pulled and verified in {:.1f} s; to talk to it: heddle chat {}\n", seconds_since(start), local);
  else
    err << fmt::format("it is here already; to talk to it: heddle chat {}\n", local);
  if (out) *out << fmt::format("{}\t{}\n", local, plan.opens.string());
  return 0;
}

std::optional<int> offer_to_pull(const NoSuchModel& missing, const std::string& command, std::istream& in,
                                 std::ostream& err) {
  if (command != "heddle chat" && command != "heddle run" && command != "heddle serve") throw missing;
  if (&in != &std::cin || err.rdbuf() != std::cerr.rdbuf() || !::isatty(STDIN_FILENO) || !::isatty(STDERR_FILENO))
    throw missing;
  err << "heddle: " << missing.what() << std::endl;
  const store::PullOptions options = pull_options();
  const store::PullPlan plan = store::plan_pull(missing.remote, options);
  err << fmt::format("Pull {} ({}) from {} now? [y/N] ", plan.name.text(), bytes_text(double(plan.bytes)),
                     source_of(plan, options.remotes))
      << std::flush;
  std::string answer;
  if (!std::getline(in, answer) || (answer != "y" && answer != "Y" && answer != "yes")) return 1;
  const int status = pull_model(plan, options, nullptr, err);
  return status == 0 ? std::nullopt : std::optional(status);
}

void describe_pull(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  struct Given {
    std::string name;
    PullSettings settings;
  };
  const auto given = std::make_shared<Given>();
  CLI::App* command = program.add_subcommand("pull", "Get a model from the Hugging Face Hub or an Ollama registry");
  command->add_option("NAME", given->name, "org/repo or org/repo:TYPE of the hub; name:tag or host/namespace/name:tag")
      ->type_name("")
      ->required();
  command->add_option("--connections", given->settings.connections, "Connections at once")->type_name("N");
  command->footer(
      "Of a repository with GGUF files, one type is pulled: Q4_K_M unless another is named, else Q8_0, else the first. "
      "An\n"
      "interrupted pull goes on where it was. HF_ENDPOINT, HF_TOKEN, HEDDLE_OLLAMA_REGISTRY and the proxy variables of "
      "curl\n"
      "are followed. Models go to $XDG_DATA_HOME/heddle/models.");
  command->callback([given, &out, &err, &status] {
    const store::RemoteName name = store::read_remote_name(given->name);
    const store::PullOptions options = pull_options(given->settings);
    status = pull_model(store::plan_pull(name, options), options, &out, err);
  });
}

}  // namespace heddle
