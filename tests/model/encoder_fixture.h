// A tiny encoder or reranker: its folder, texts, and the embeddings or scores that transformers computes
// (tools/model_fixtures/make_encoders.py wrote them).
#pragma once
#include "model/forward.h"
#include "model/pooled.h"
#include "tests/model/fixture.h"

namespace heddle::test {

class EncoderFixture : public Fixture {
 public:
  const std::string name;
  const std::vector<std::vector<uint32_t>> texts, types;  // types: empty where all are 0
  const bool ranks;
  const std::vector<std::vector<float>> expected;  // logits where it ranks, embeddings of length 1 otherwise

  explicit EncoderFixture(const std::string& fixture)
      : Fixture(fixture, folder()),
        name(fixture),
        texts(json.at("texts").get<std::vector<std::vector<uint32_t>>>()),
        types(json.at("types").get<std::vector<std::vector<uint32_t>>>()),
        ranks(json.contains("logits")),
        expected(json.at(ranks ? "logits" : "embeddings").get<std::vector<std::vector<float>>>()) {}

  static std::filesystem::path folder() { return Fixture::folder().parent_path() / "data"; }
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) all.push_back(entry.path().stem().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  // The folder of the model in `to`, with all its files; its name, which matters for some, is that of the fixture.
  std::filesystem::path write_in(const Folder& to, quant::Format format = quant::Format::f32) const {
    const std::filesystem::path at = to.file(name);
    std::filesystem::create_directories(at);
    const auto put = [&](const std::string& file, const std::string& content) {
      std::filesystem::create_directories((at / file).parent_path());
      to.write(name + "/" + file, content);
    };
    put("config.json", config.dump());
    put("model.safetensors", safetensors(format));
    for (const auto& [file, content] : json.at("files").items()) put(file, content.dump());
    for (const auto& [module, tensors] : json.at("dense").items()) {
      Shapes shapes;
      for (const auto& [tensor, shape] : tensors.items())
        shapes.emplace_back(tensor, shape.get<std::vector<uint64_t>>());
      put(module + "/model.safetensors", Fixture::safetensors(shapes, format));
    }
    return at;
  }

 private:
  using Fixture::folder;
};

// The states of several texts, in one batch.
inline std::vector<std::vector<float>> states_of(const model::Model& model, model::Backend& backend,
                                                 const model::Limits& limits,
                                                 const std::vector<std::vector<uint32_t>>& texts,
                                                 const std::vector<std::vector<uint32_t>>& types) {
  model::Batch batch;
  uint32_t block = 0;
  for (uint32_t text = 0; text < texts.size(); ++text) {
    std::vector<uint32_t>& blocks = batch.blocks.emplace_back();
    for (uint32_t i = 0; i < texts[text].size(); ++i) {
      if (i % limits.block_tokens == 0) blocks.push_back(block++);
      batch.states.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back(texts[text][i]);
      batch.positions.push_back(i);
      batch.sequences.push_back(text);
      if (!types.empty()) batch.types.push_back(types[text][i]);
    }
  }
  model::forward(model, backend, batch);
  const std::span<const float> states = backend.result().states;
  std::vector<std::vector<float>> all;
  size_t at = 0;
  for (const auto& text : texts) {
    const std::span<const float> of = states.subspan(at, text.size() * model.width);
    all.emplace_back(of.begin(), of.end());
    at += of.size();
  }
  return all;
}

// Pooled, then through Dense modules to length 1, or through the classifier to logits.
inline std::vector<float> result_of(const model::Model& model, const std::vector<float>& states, bool ranks) {
  const size_t width = model.width, tokens = states.size() / width;
  const model::Pooling pooling = model::pooling_of(model, ranks);
  std::vector<double> pooled(width);
  for (size_t t = 0; t < tokens; ++t)
    if (pooling == model::Pooling::mean || t == (pooling == model::Pooling::cls ? 0 : tokens - 1))
      for (size_t i = 0; i < width; ++i) pooled[i] += double(states[t * width + i]);
  if (pooling == model::Pooling::mean)
    for (double& value : pooled) value /= double(tokens);
  const std::vector<float> as_float(pooled.begin(), pooled.end());
  if (ranks) return model::label_logits(model, as_float);
  const std::vector<float> embedding = model::embedding_of(model, as_float);
  return model::with_length_1(std::vector<double>(embedding.begin(), embedding.end()));
}

}  // namespace heddle::test
