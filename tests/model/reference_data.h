// Models and logits by others, and how to run one on the reference backend.
#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "cpu/reference.h"
#include "formats/safetensors.h"
#include "model/load.h"
#include "model/session.h"

namespace heddle::test {

// A safetensors file's tensors of f32 or i32, as vectors.
struct Values {
  std::map<std::string, std::vector<float>> f32;
  std::map<std::string, std::vector<uint32_t>> ids;
};
inline Values read_values(const std::filesystem::path& path) {
  const MappedFile file(path);
  Values values;
  for (const formats::Tensor& tensor : formats::read_safetensors(file.bytes(), path.string())) {
    const bool is_ids = tensor.format == quant::Format::i32;
    void* to =
        is_ids ? static_cast<void*>((values.ids[tensor.name].resize(tensor.values()), values.ids[tensor.name].data()))
               : static_cast<void*>((values.f32[tensor.name].resize(tensor.values()), values.f32[tensor.name].data()));
    std::memcpy(to, tensor.view.data(), tensor.bytes());
  }
  return values;
}

// A model with a session on the reference backend.
struct Running {
  model::Model model;
  model::Limits limits;
  std::unique_ptr<model::Backend> backend;
  model::Session session;

  explicit Running(const std::filesystem::path& path, uint32_t context = 0, uint32_t rows = 64)
      : model(model::load(formats::open_checkpoint(path), {.context = context})),
        limits(model::limits_for(model.context, rows)),
        backend(cpu::make_reference(model, limits)),
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

// The largest difference, as a share of the range of the expected values.
inline double worst(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size()) return 1e9;
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(double(expected[i]) - found[i]));
  return worst / (double(*high) - *low);
}

}  // namespace heddle::test
