// heddle health: whether a server is ready, as an exit status, for health checks of containers, which have no curl.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "main/commands/commands.h"
#include "store/http_client.h"
#include "store/remotes.h"

namespace heddle {
namespace {

struct HealthOptions {
  std::string url = "http://127.0.0.1:8080";
  double timeout = 5;  // seconds
};

void expect_ready(const HealthOptions& options, std::ostream& out) {
  if (!(options.timeout > 0)) throw Error("--timeout: expected more than 0 seconds, found {}", options.timeout);
  store::origin_of(options.url);  // an Error for what is no address
  std::string base = options.url;
  while (base.ends_with('/')) base.pop_back();
  store::HttpClient client({.ca_file = store::remotes_of_process().ca_file,
                            .connect_seconds = options.timeout,
                            .stall_seconds = options.timeout,
                            .direct = true});
  client.get_text({.url = base + "/health/ready"}, 64 << 10);
  out << options.url << " is ready\n";
}

}  // namespace

void describe_health(CLI::App& program, std::ostream& out) {
  const auto options = std::make_shared<HealthOptions>();
  CLI::App* command = program.add_subcommand("health", "Say whether a server is ready: the exit status is 0 or 1");
  command->add_option("URL", options->url, "Address of the server")->type_name("");
  command->add_option("--timeout", options->timeout, "Seconds to wait for a response")->type_name("S");
  command->footer("Asks for /health/ready, which needs no API key. Proxies of the environment are not used.");
  command->callback([options, &out] { expect_ready(*options, out); });
}

}  // namespace heddle
