// A model with a session on a backend: what it says, token by token or all at once.
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cpu/cpu.h"
#include "formats/convert.h"
#include "model/load.h"
#include "model/session.h"

namespace heddle::test {

using MakeBackend = std::function<std::unique_ptr<model::Backend>(const model::Model&, const model::Limits&)>;

inline MakeBackend fast(bool exact) {
  return [exact](const model::Model& model, const model::Limits& limits) {
    return cpu::make_cpu(model, limits, {.threads = 2, .exact = exact});
  };
}

struct Running {
  model::Model model;
  model::Limits limits;
  std::unique_ptr<model::Backend> backend;
  model::Session session;

  explicit Running(const std::filesystem::path& path, uint32_t context = 0, uint32_t rows = 64,
                   const MakeBackend& make = cpu::make_reference)
      : Running(model::load(formats::open_checkpoint(path), {.context = context}), make, rows) {}
  Running(model::Model loaded, const MakeBackend& make, uint32_t rows = 64)
      : model(std::move(loaded)),
        limits(model::limits_for(model.context, rows)),
        backend(make(model, limits)),
        session(model, *backend, limits) {}

  uint32_t best(std::span<const float> logits) const {
    return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  // `ids` and what follows greedily, up to `count` tokens in all.
  std::vector<uint32_t> greedy(std::vector<uint32_t> ids, size_t count) {
    uint32_t next = best(session.feed(ids));
    while (ids.size() < count) {
      ids.push_back(next);
      if (ids.size() < count) next = best(session.feed({&next, 1}));
    }
    return ids;
  }
  std::vector<float> all_logits(const std::vector<uint32_t>& ids) {
    std::vector<float> all;
    session.feed_each(
        ids, [&](size_t, std::span<const float> logits) { all.insert(all.end(), logits.begin(), logits.end()); });
    return all;
  }
};

// What heddle convert writes, but for the vocabulary.
inline std::filesystem::path converted(const std::filesystem::path& model, const std::filesystem::path& to) {
  const formats::Checkpoint checkpoint = formats::open_checkpoint(model);
  formats::write_gguf(checkpoint, formats::converted_metadata(checkpoint), std::nullopt, to);
  return to;
}

}  // namespace heddle::test
