// A loaded model with its tokenizer and the device it runs on.
#pragma once
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "formats/checkpoint.h"
#include "main/device/rank_group.h"
#include "main/device/split_choice.h"
#include "model/backend.h"
#include "text/tokenizer.h"

namespace heddle {

// The files that a model was read from.
struct ModelFiles {
  std::string format;  // "gguf", "safetensors"
  std::string type;    // "Q4_K_M" where the file says it, otherwise the format of most weights
  std::string license;
  uint64_t bytes = 0;
  int64_t modified = 0;  // seconds since 1970; 0: unknown
};
ModelFiles files_of(const formats::Checkpoint& checkpoint);

struct RunningModel {
  model::Model model;
  ModelFiles files;
  std::optional<text::Tokenizer> maybe_tokenizer;  // unset if the file has none
  std::string chat_template, rerank_template;
  model::Limits limits;
  std::optional<uint32_t> gpu;        // number of the GPU it runs on; unset: the CPU
  std::optional<SplitChoice> split;   // between the GPU and the CPU; unset: all of it is on one of them
  std::unique_ptr<RankGroup> group;   // null: this process computes all of it
  std::optional<model::Model> stage;  // of a pipeline: the layers of this rank's stage
  std::optional<model::Model> shard;  // of these layers, the part of this rank
  std::unique_ptr<model::Backend> backend;
  std::unique_ptr<RunningModel> draft;  // null: none was asked for; it has no tokenizer
  uint32_t draft_tokens = 0;            // that it proposes at once, or the model's own head

  const text::Tokenizer& tokenizer() const;                                            // an Error if there is none
  const model::Model& own() const { return shard ? *shard : stage ? *stage : model; }  // what this process computes
  bool ranks() const;                                                                  // it is a reranker
  bool drafts() const { return draft || model::next_head(model); }  // tokens are proposed by more than the text
  void set_draft(engine::EngineOptions& to) const;
};
// `name`: see open_model(). `rows`: maximum tokens in a batch; 0: the default of the device. Writes to `log`, if one is
// given, which device was chosen, how the model is split where it is, the progress of loading (on a terminal), and
// whether the context had to be cut. Throws an Error before weights are read if memory is too small (TooLittleMemory on
// the CPU), if a GPU that was
// asked for cannot run the model, and if the draft has another vocabulary.
std::unique_ptr<RunningModel> open_running(const std::string& name, const DeviceOptions& options,
                                           std::ostream* log = nullptr, uint32_t rows = 0);

}  // namespace heddle
