// The same synthetic traffic as serve-sim's, as requests of the API.
#include "main/bench/client.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "main/bench/traffic.h"
#include "main/commands/commands.h"

namespace heddle {
namespace {

constexpr std::array words = {" the",  " a",    " boat", " red",  " river", " and",  " small", " house",
                              " tree", " went", " to",   " with", " her",   " said", " big",   " day",
                              " old",  " man",  " sun",  " was",  " in",    " his",  " they",  " saw",
                              " dog",  " ran",  " far",  " then", " one",   " very", " happy", " home"};

std::string body_of(const Arrival& arrival, const BenchClientOptions& options) {
  nlohmann::json body{{"max_tokens", arrival.answer},
                      {"ignore_eos", true},
                      {"temperature", 0},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}}};
  if (!options.model.empty()) body["model"] = options.model;
  if (options.text) {
    std::string text;
    for (const uint32_t token : arrival.prompt) text += words[token % words.size()];
    body["prompt"] = text.substr(1);
  } else {
    body["prompt"] = arrival.prompt;
  }
  return body.dump();
}

void expect_client_options(const BenchClientOptions& options) {
  if (options.requests == 0) throw Error("--requests: expected at least one, found 0");
  if (options.clients == 0) throw Error("--clients: expected at least one, found 0");
  if (options.vocabulary == 0) throw Error("--vocabulary: expected at least one, found 0");
  if (!(options.timeout > 0)) throw Error("--timeout: expected more than 0 seconds, found {}", options.timeout);
}

nlohmann::ordered_json client_figures(ClientTraffic& traffic, const BenchClientOptions& options) {
  const double seconds = std::max(traffic.seconds, 1e-9);
  nlohmann::ordered_json json{
      {"url", options.url},
      {"clients", options.clients},
      {"requests", options.requests},
      {"answered", traffic.answered},
      {"refused", traffic.refused},
      {"failed", traffic.failed},
      {"seconds", traffic.seconds},
      {"requests_per_second", double(traffic.answered) / seconds},
      {"generated_tokens", traffic.generated},
      {"generated_tokens_per_second", double(traffic.generated) / seconds},
      {"prompt_tokens", traffic.prompt},
      {"cached_tokens", traffic.cached},
      {"prompt_tokens_per_second", double(traffic.prompt) / seconds},
      {"chunks", traffic.chunks},
      {"first_token_seconds", percentiles(traffic.first)},
      {"between_tokens_seconds", percentiles(traffic.gaps)},
      {"request_seconds", percentiles(traffic.whole)},
  };
  if (!traffic.reason.empty()) json["reason"] = traffic.reason;
  return json;
}

void print_client(const nlohmann::ordered_json& json, std::ostream& out) {
  const auto count = [&](const char* name) { return json[name].get<uint64_t>(); };
  const auto number = [&](const char* name) { return json[name].get<double>(); };
  const auto row = [&](const char* name, const std::string& text) { print_figure(out, name, text); };
  row("requests", fmt::format("{} answered in {:.2f} s by {} clients, {:.1f} per second; {} refused, {} failed",
                              count("answered"), number("seconds"), count("clients"), number("requests_per_second"),
                              count("refused"), count("failed")));
  if (json.contains("reason")) row("", json["reason"].get<std::string>());
  row("generated", fmt::format("{} tokens in {} chunks, {:.1f} per second", count("generated_tokens"), count("chunks"),
                               number("generated_tokens_per_second")));
  row("prompt tokens", fmt::format("{}, {:.1f} per second; {} cached", count("prompt_tokens"),
                                   number("prompt_tokens_per_second"), count("cached_tokens")));
  row("first token", percentiles_text(json["first_token_seconds"]));
  row("between tokens", percentiles_text(json["between_tokens_seconds"]));
  row("whole request", percentiles_text(json["request_seconds"]));
}

}  // namespace

void describe_bench_client(CLI::App& bench, std::ostream& out) {
  const auto options = std::make_shared<BenchClientOptions>();
  CLI::App* command =
      bench.add_subcommand("client", "Throughput and latency of a server with OpenAI's API, heddle's or another");
  command->add_option("url", options->url, "Such as http://127.0.0.1:8080")->required()->type_name("");
  const auto option = [command](const char* name, auto& value, const char* text, const char* type) {
    command->add_option(name, value, text)->type_name(type)->capture_default_str();
  };
  option("-c,--clients", options->clients, "Clients at once, each of which waits for its response", "N");
  option("-n,--requests", options->requests, "Number of requests in all", "N");
  option("-p,--prompt", options->prompts, "Lengths of prompts: 512, or 16-512, or 512:0.8,4096:0.2", "MIX");
  option("-g,--generate", options->answers, "Lengths of completions, the same way", "MIX");
  option("--shared", options->shared, "Tokens that all prompts begin with, before their own", "N");
  option("--name", options->model, "Model name in the requests; by default none is sent", "NAME");
  option("--api-key", options->api_key, "For servers that require one", "KEY");
  option("--vocabulary", options->vocabulary, "Random tokens are below this number", "N");
  command->add_flag("--text", options->text, "Prompts are random words, not random tokens");
  option("--timeout", options->timeout, "Seconds without a byte until a request has failed", "S");
  option("--seed", options->seed, "Seed of the traffic", "N");
  describe_json(*command, options->json);
  command->callback([options, &out] { bench_client(*options, out); });
}

void bench_client(const BenchClientOptions& options, std::ostream& out) {
  expect_client_options(options);
  const ServerAddress server = parse_url(options.url);
  const TrafficOptions wanted{.prompts = LengthMix("--prompt", options.prompts),
                              .answers = LengthMix("--generate", options.answers),
                              .requests = options.requests,
                              .shared = options.shared,
                              .seed = options.seed};
  std::vector<std::string> bodies;
  for (const Arrival& arrival : make_traffic(wanted, options.vocabulary)) bodies.push_back(body_of(arrival, options));
  ClientTraffic traffic = run_clients(server, options.api_key, bodies, options.clients, options.timeout);
  const nlohmann::ordered_json json = client_figures(traffic, options);
  if (options.json)
    out << json.dump(2) << '\n';
  else
    print_client(json, out);
  if (traffic.failed) throw Error("{} requests failed: {}", traffic.failed, traffic.reason);
}

}  // namespace heddle
