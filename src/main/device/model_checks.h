// A backend held to the reference on one model: prompts in several ways, batches, steps that go on by themselves.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "main/device/closeness.h"
#include "model/backend.h"

namespace heddle {

using Tokens = std::vector<uint32_t>;

struct ModelCheck {
  std::string name;  // "batch of 4"
  Closeness closeness;
  bool passed = false;
  std::string note;  // what there is to say beside it
};
// As lines of a table with a header.
std::string table_of(const std::vector<ModelCheck>& checks);

// The least cosine that passes.
inline double cosine_bar(bool exact) { return exact ? 0.9999 : 0.999; }

class ModelChecks {
 public:
  // Two texts of the same length, not alike. The reference computes them here, with a KV cache in `kv`.
  ModelChecks(const model::Model& model, Tokens first, Tokens second, double bar,
              model::KvFormat kv = model::KvFormat::f16);

  // Of a cache that holds all sequences that are checked at once.
  model::Limits limits() const;

  void prompts(model::Backend& backend);                // at once, in odd pieces, token by token
  void batch(model::Backend& backend, uint32_t count);  // so many sequences, each continued by known tokens
  void mixed(model::Backend& backend);                  // a prompt beside sequences that are continued
  void steps(model::Backend& backend, uint32_t count);  // what they pick is what the logits say
  void all(model::Backend& backend, const std::vector<uint32_t>& batches, const std::string& called);

  const std::vector<ModelCheck>& checks() const { return checks_; }
  bool passed() const;

  static constexpr uint32_t continued = 6;    // tokens of a sequence that come one by one
  static constexpr uint32_t most_batch = 8;   // sequences
  static constexpr uint32_t least_text = 24;  // tokens: what such a batch needs to have sequences of other lengths

 private:
  struct Sequence {
    size_t text;      // which one
    uint32_t length;  // tokens that are there
  };
  std::span<const float> right(size_t text, uint32_t position) const;
  model::Batch empty_batch(uint32_t sequences) const;
  // The next `count` tokens of the text.
  void put(model::Batch& batch, Sequence& sequence, uint32_t index, uint32_t count) const;
  // Computes the batch; every row is compared.
  void run(model::Backend& backend, model::Batch& batch, const std::vector<Sequence>& sequences, Closeness& to) const;
  // Sequences of other lengths, fed so far.
  std::vector<Sequence> begin(model::Backend& backend, model::Batch& batch, uint32_t count, Closeness& to) const;
  void in_pieces(model::Backend& backend, const std::string& name, const std::vector<uint32_t>& pieces);
  void add(const std::string& name, const Closeness& closeness);

  const model::Model& model_;
  std::vector<Tokens> texts_;
  double bar_;
  model::KvFormat kv_;
  std::vector<std::vector<float>> right_;  // per text: (tokens, vocabulary)
  std::string called_;                     // of the backend that is checked
  std::vector<ModelCheck> checks_;
};

}  // namespace heddle
