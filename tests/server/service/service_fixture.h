// A service with the model that counts, and ways to send it requests.
#pragma once
#include <future>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "engine/engine_thread.h"
#include "server/service/service.h"
#include "tests/engine/counting.h"
#include "tests/server/service/recorded_response.h"
#include "tests/text/counting_tokenizer.h"

namespace heddle::test {

struct ServiceFixture {
  explicit ServiceFixture(server::ServiceOptions options = {}, engine::EngineOptions engine_options = {},
                          uint32_t context = 200)
      : model(counting_model(context)), tokenizer(counting_tokenizer()) {
    if (!options.log)
      options.log = [this](std::string line) {
        const std::lock_guard lock(mutex);
        lines.push_back(std::move(line));
      };
    engine.emplace(model, backend, model::Limits{.rows = 64, .kv_blocks = 256}, std::move(engine_options));
    service.emplace(std::move(options));
  }
  ~ServiceFixture() { service.reset(); }

  void serve(std::string chat_template = counting_template) {
    if (!thread) thread.emplace(*engine);
    service->serve({.card = {.name = "count/er",
                             .chat_template = std::move(chat_template),
                             .context = model.context,
                             .vocabulary = counting_vocabulary,
                             .width = counting_width},
                    .tokenizer = tokenizer,
                    .engine = *thread,
                    .config = R"({"device":"none"})"});
  }

  using Headers = std::vector<server::Header>;
  Recorded begin(std::string method, std::string path, std::string body = {}, Headers headers = {}) {
    Recorded recorded;
    const size_t end = std::min(path.find('?'), path.size());
    service->handle({.method = std::move(method),
                     .path = path.substr(0, end),
                     .query = path.substr(std::min(end + 1, path.size())),
                     .headers = std::move(headers),
                     .body = std::move(body),
                     .peer = "127.0.0.1:5"},
                    recorded.responder());
    return recorded;
  }
  Recorded ask(std::string method, std::string path, std::string body = {}, Headers headers = {}) {
    const size_t before = service->in_progress();
    const Recorded recorded = begin(std::move(method), std::move(path), std::move(body), std::move(headers));
    EXPECT_TRUE(recorded.wait_for_end()) << "no response";
    EXPECT_TRUE(wait_until_in_progress(before));  // it is logged after the response
    return recorded;
  }
  Recorded get(std::string path, Headers headers = {}) { return ask("GET", std::move(path), {}, std::move(headers)); }
  Recorded post(std::string path, std::string body, Headers headers = {}) {
    return ask("POST", std::move(path), std::move(body), std::move(headers));
  }
  Recorded complete(std::string fields, Headers headers = {}) {
    return post("/v1/completions", "{" + fields + "}", std::move(headers));
  }
  Recorded chat(std::string text, std::string fields = {}, Headers headers = {}) {
    return post("/v1/chat/completions", chat_body(text, fields), std::move(headers));
  }
  static std::string chat_body(const std::string& text, const std::string& fields = {}) {
    return R"({"messages":[{"role":"user","content":")" + text + "\"}]" + (fields.empty() ? "" : "," + fields) + "}";
  }

  bool wait_until_in_progress(size_t count) const {
    for (int i = 0; i < 20'000 && service->in_progress() > count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return service->in_progress() <= count;
  }

  // The engine publishes its metrics after the step in which a completion ends, which may be after the response.
  bool wait_until_finished(uint64_t completions) const {
    const auto finished = [&] {
      const engine::Metrics metrics = thread->metrics();
      return std::accumulate(metrics.finished.begin(), metrics.finished.end(), uint64_t(0));
    };
    for (int i = 0; i < 20'000 && finished() < completions; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return finished() == completions;
  }

  std::vector<Json> log() const {
    const std::lock_guard lock(mutex);
    std::vector<Json> entries;
    for (const std::string& line : lines) entries.push_back(parse_json(line, "the log"));
    return entries;
  }
  Json last_log() const { return log().back(); }

  // Steps wait until release_steps().
  void hold_steps() {
    held.emplace();
    backend.each_batch = [future = held->get_future().share()] { future.wait(); };
  }
  void release_steps() { held->set_value(); }

  model::Model model;
  text::Tokenizer tokenizer;
  CountingBackend backend;
  std::optional<std::promise<void>> held;
  std::optional<engine::Engine> engine;
  mutable std::mutex mutex;
  std::vector<std::string> lines;
  std::optional<engine::EngineThread> thread;
  std::optional<server::Service> service;  // destroyed first
};

inline std::string content_of(const Json& answer, size_t choice = 0) {
  return answer.at("choices").at(choice).at("message").at("content").get<std::string>();
}
inline std::string text_of(const Json& answer, size_t choice = 0) {
  return answer.at("choices").at(choice).at("text").get<std::string>();
}
inline std::string finish_of(const Json& answer, size_t choice = 0) {
  return answer.at("choices").at(choice).at("finish_reason").get<std::string>();
}

}  // namespace heddle::test
