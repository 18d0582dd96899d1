// The cost of the server without the model: requests over real sockets to an engine with a backend that computes
// nothing. Client and server share the machine.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "engine/engine_thread.h"
#include "server/http/http.h"
#include "server/service/service.h"
#include "tests/engine/counting.h"
#include "tests/server/service/stream_clients.h"
#include "tests/text/counting_tokenizer.h"

namespace heddle {
namespace {

constexpr double run_seconds = 3;

struct CountingServer {
  model::Model model = test::counting_model();
  text::Tokenizer tokenizer = test::counting_tokenizer();
  test::CountingBackend backend;
  engine::Engine engine{model, backend, {.rows = 512, .kv_blocks = 4096}};
  engine::EngineThread thread{engine};
  server::Service service{{.log = [](std::string line) { benchmark::DoNotOptimize(line); }}};
  server::HttpServer http{{.port = 0},
                          [this](server::HttpRequest request, std::shared_ptr<server::Responder> responder) {
                            service.handle(std::move(request), std::move(responder));
                          }};

  CountingServer() {
    service.serve({.card = {.name = "counter",
                            .chat_template = test::counting_template,
                            .context = model.context,
                            .vocabulary = test::counting_vocabulary,
                            .width = test::counting_width},
                   .tokenizer = tokenizer,
                   .engine = thread});
  }
};

void run(benchmark::State& state, const std::string& path, const std::string& body) {
  CountingServer target;
  const std::string request =
      fmt::format("POST {} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path,
                  body.size(), body);
  size_t failed = 0;
  double requests = 0, tokens = 0, seconds = 0;
  for (auto _ : state) {
    const uint64_t before = target.thread.metrics().generated;
    test::StreamClients clients(
        {.port = target.http.port(),
         .clients = size_t(state.range(0)),
         .seconds = run_seconds,
         .requests = {request},
         .on_response = [&](size_t, const auto& response) { failed += response.status() != 200; }});
    const auto result = clients.run();
    failed += result.broken;
    requests += double(result.whole);
    seconds += result.seconds;
    tokens += double(target.thread.metrics().generated - before);
  }
  if (failed) state.SkipWithError("requests failed");
  state.counters["requests/s"] = requests / seconds;
  state.counters["tokens/s"] = tokens / seconds;
}

void streamed_tokens(benchmark::State& state) {
  run(state, "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"a"}],"stream":true,"max_tokens":200,"ignore_eos":true})");
}
void requests(benchmark::State& state) {
  run(state, "/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})");
}
BENCHMARK(streamed_tokens)->Arg(1)->Arg(16)->Arg(64)->Arg(500)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK(requests)->Arg(1)->Arg(16)->Arg(64)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace heddle
