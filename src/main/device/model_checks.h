// A backend compared with the reference on one model: prompts split in several ways, batches, and tokens that the
// device picks.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/backend.h"

namespace heddle {

class ProgressLine;

using Tokens = std::vector<uint32_t>;

// How near logits are to those of the reference, over several positions.
struct Closeness {
  uint32_t positions = 0;
  uint32_t same_best = 0;  // positions with the same most likely token
  double cosine = 1;       // the lowest; -2 if a logit is not a number
  double difference = 0;   // the largest, as a share of the range of the reference; infinite if one is not a number

  void add(std::span<const float> right, std::span<const float> found);  // one position
};

struct ModelCheck {
  enum class Outcome { passed, failed, skipped };

  std::string name;  // "batch of 4"
  Closeness closeness;
  Outcome outcome = Outcome::failed;
  std::string note;  // why it was skipped or failed; may be empty
};
// As lines of a table with a header.
std::string table_of(const std::vector<ModelCheck>& checks);

// The lowest cosine that passes.
inline double cosine_bar(bool exact) { return exact ? 0.9999 : 0.999; }

class ModelChecks {
 public:
  // Two different texts of the same length. The reference computes them here, with a KV cache in `kv`. `line` may be
  // null.
  ModelChecks(const model::Model& model, Tokens first, Tokens second, double bar,
              model::KvFormat kv = model::KvFormat::f16, ProgressLine* line = nullptr);

  // Of a cache that holds all sequences of a check.
  model::Limits limits() const;

  void prompts(model::Backend& backend);                // at once, in odd chunks, token by token
  void batch(model::Backend& backend, uint32_t count);  // `count` sequences, each continued by known tokens
  void mixed(model::Backend& backend);                  // a prompt beside sequences that are continued
  void steps(model::Backend& backend, uint32_t count);  // the tokens picked are those the logits say
  void all(model::Backend& backend, const std::vector<uint32_t>& batches, const std::string& called);

  const std::vector<ModelCheck>& checks() const { return checks_; }
  size_t count(ModelCheck::Outcome outcome) const;
  bool passed() const;  // some passed and none failed

  static constexpr uint32_t continued = 6;   // tokens of a sequence that come one by one
  static constexpr uint32_t max_batch = 72;  // sequences
  static constexpr uint32_t min_text = 24;   // tokens, so that the sequences of such a batch can differ in length

 private:
  struct Sequence {
    size_t text;      // which of the two
    uint32_t length;  // tokens so far
  };
  std::span<const float> right(size_t text, uint32_t position) const;
  model::Batch empty_batch(uint32_t sequences) const;
  // The next `count` tokens of the text.
  void put(model::Batch& batch, Sequence& sequence, uint32_t index, uint32_t count) const;
  // Computes the batch; every row is compared.
  void run(model::Backend& backend, model::Batch& batch, const std::vector<Sequence>& sequences, Closeness& to) const;
  // Sequences of different lengths, with all but the last few tokens of their texts.
  std::vector<Sequence> begin(model::Backend& backend, model::Batch& batch, uint32_t count, Closeness& to) const;
  void in_pieces(model::Backend& backend, const std::string& name, const std::vector<uint32_t>& pieces);
  void add(const std::string& name, const Closeness& closeness);

  const model::Model& model_;
  std::vector<Tokens> texts_;
  double bar_;
  model::KvFormat kv_;
  ProgressLine* line_;
  std::vector<std::vector<float>> right_;  // per text: (tokens, vocabulary)
  std::string called_;                     // prefix of the names of checks: "graphs: "
  std::vector<ModelCheck> checks_;
};

// The brief form, before a GPU is used: a few layers of the model, some rows of its output, a few tokens.
// A part of `model`, which must outlive it: layers of different kinds, up to `products` multiplications for a token,
// and at least the first.
model::Model cut_model(const model::Model& model, double products);

struct SelftestFailed : Error {
  using Error::Error;
};

using MakeBackend = std::function<std::unique_ptr<model::Backend>(const model::Model&, const model::Limits&)>;

// Of a model without logits: the states of a text alone, and of several in one batch, the backend's against the
// reference's. `tokens`: of the longest text.
std::vector<ModelCheck> check_states(const model::Model& model, const MakeBackend& make, uint32_t tokens, double bar,
                                     std::string& backend_name);

// Compares a backend with the reference on a cut model: some tokens at once, and one by one. Throws SelftestFailed with
// both figures if they differ too much. `kv`: format of both KV caches. `seconds`: time for the reference, about.
void brief_selftest(const model::Model& model, const MakeBackend& make, bool exact,
                    model::KvFormat kv = model::KvFormat::f16, double seconds = 0.2);

}  // namespace heddle
