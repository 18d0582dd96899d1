// One generation: the engine's events become pieces of text, which a caller takes at its own pace.
#pragma once
#include <heddle.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "library/shared_model.h"
#include "text/completion_text.h"

namespace heddle::library {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Throws what makes the request impossible.
  static std::shared_ptr<Generation> start(std::shared_ptr<SharedModel> model, const GenerationRequest& request);

  // The next piece, valid until the next call; null at the end. Throws an Error if the generation failed.
  const heddle_piece* next();
  void cancel();  // drops what was not taken
  const heddle_result* result() const;

 private:
  struct Piece {
    std::string text;
    std::vector<uint32_t> tokens;
  };

  Generation(std::shared_ptr<SharedModel> model, text::CompletionText text, uint64_t seed)
      : model_(std::move(model)), text_(std::move(text)) {
    result_.seed = seed;
  }
  void on_event(const engine::Event& event);
  void end(const engine::Event& event);
  void complete();

  const std::shared_ptr<SharedModel> model_;
  engine::RequestId id_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  text::CompletionText text_;  // uses the model's tokenizer: for events alone, which end before the model does
  std::deque<Piece> pieces_;
  bool ended_ = false, cancelled_ = false, taken_ = false;  // taken_: all of it, and result_ is complete
  std::string failure_;

  Piece current_;  // what follows belongs to the thread that takes pieces
  heddle_piece piece_{};
  Piece all_;
  std::string stop_;
  heddle_result result_{};
};

}  // namespace heddle::library

struct heddle_generation {
  std::shared_ptr<heddle::library::Generation> shared;
};
