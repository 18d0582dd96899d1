// The HTTP service on a tiny encoder, by the reference backend.
#pragma once
#include "cpu/cpu.h"
#include "engine/engine_thread.h"
#include "formats/checkpoint.h"
#include "model/load.h"
#include "server/service/service.h"
#include "tests/model/encoder_fixture.h"
#include "tests/server/service/recorded_response.h"
#include "tests/text/letters_tokenizer.h"

namespace heddle::test {

struct EncoderService {
  explicit EncoderService(const std::string& fixture_name, uint32_t pooling = ~0u)
      : fixture(fixture_name), model(loaded(pooling)), backend(cpu::make_reference(model, limits)) {
    engine.emplace(model, *backend, limits);
    thread.emplace(*engine);
    service.emplace(server::ServiceOptions());
    service->serve({.card = {.name = fixture.name,
                             .chat_template = "{{ messages[0].content }}",
                             .context = engine->context(),
                             .vocabulary = model.vocabulary,
                             .width = model::embedding_width(model),
                             .generates = model::generates(model),
                             .embeds = model.pooling != model::Pooling::rank,
                             .embeds_tokens = model.pooling == model::Pooling::none,
                             .ranks = model.classifier.has_value()},
                    .tokenizer = tokenizer,
                    .engine = *thread,
                    .config = "{}",
                    .rerank_template = rerank_template,
                    .token_types = model::token_types(model),
                    .state_width = model.width});
  }
  ~EncoderService() { service.reset(); }

  Recorded post(std::string path, std::string body) {
    Recorded recorded;
    service->handle({.method = "POST",
                     .path = std::move(path),
                     .query = "",
                     .headers = {{"Content-Type", "application/json"}},
                     .body = std::move(body),
                     .peer = "127.0.0.1:5"},
                    recorded.responder());
    EXPECT_TRUE(recorded.wait_for_end()) << "no response";
    return recorded;
  }
  // By the model alone.
  std::vector<float> result(const std::vector<uint32_t>& ids, const std::vector<uint32_t>& types, bool ranks) {
    const auto own = cpu::make_reference(model, limits);
    std::vector<std::vector<uint32_t>> all_types;
    if (!types.empty() && model::token_types(model) > 1) all_types.push_back(types);
    return result_of(model, states_of(model, *own, limits, {ids}, all_types)[0], ranks);
  }

  EncoderFixture fixture;
  Folder folder;
  std::string rerank_template;
  model::Limits limits{.rows = 64, .kv_blocks = 66};
  model::Model model;
  text::Tokenizer tokenizer = letters_tokenizer();
  std::unique_ptr<model::Backend> backend;
  std::optional<engine::Engine> engine;
  std::optional<engine::EngineThread> thread;
  std::optional<server::Service> service;  // destroyed first

 private:
  model::Model loaded(uint32_t pooling) {
    formats::Checkpoint checkpoint = formats::open_checkpoint(fixture.write_in(folder));
    rerank_template = checkpoint.chat_template("rerank");
    if (pooling != ~0u) checkpoint.metadata.set(std::string(checkpoint.architecture()) + ".pooling_type", pooling);
    return model::load(std::move(checkpoint));
  }
};

}  // namespace heddle::test
