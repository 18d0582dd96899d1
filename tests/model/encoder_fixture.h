// A tiny encoder or reranker: its folder, texts, and the embeddings or scores that transformers computes
// (tools/model_fixtures/make_encoders.py wrote them).
#pragma once
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

  static std::filesystem::path folder() { return Fixture::folder().parent_path() / "encoders"; }
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

}  // namespace heddle::test
