// A service with weft on the CPU.
#pragma once
#include <optional>

#include "engine/engine_thread.h"
#include "formats/checkpoint.h"
#include "server/service/service.h"
#include "tests/engine/crowd.h"
#include "tests/text/gguf_vocabulary.h"

namespace heddle::test {

struct WeftService {
  explicit WeftService(const model::Limits& limits = {.rows = 256, .kv_blocks = 1024})
      : world(weft(), limits), tokenizer(gguf_tokenizer(path())) {
    engine.emplace(world.model, *world.backend, world.limits);
    thread.emplace(*engine);
    service.emplace(server::ServiceOptions{});
    service->serve({.card = {.name = "weft",
                             .chat_template = formats::open_checkpoint(path()).chat_template(),
                             .context = world.model.context,
                             .vocabulary = world.model.vocabulary,
                             .width = world.model.width},
                    .tokenizer = tokenizer,
                    .engine = *thread});
  }
  static std::filesystem::path path() {
    return std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf";
  }

  World world;
  text::Tokenizer tokenizer;
  std::optional<engine::Engine> engine;
  std::optional<engine::EngineThread> thread;
  std::optional<server::Service> service;  // destroyed first
};

}  // namespace heddle::test
