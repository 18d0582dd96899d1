// The library as a program sees it: C functions, with errors as test failures.
#pragma once
#include <gtest/gtest.h>
#include <heddle.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/main/heddle_command.h"
#include "tests/support/refused.h"

namespace heddle::test {

inline heddle_model_options cpu_options() {
  heddle_model_options options;
  heddle_model_options_init(&options, sizeof options);
  options.device = "cpu";
  return options;
}

struct CloseModel {
  void operator()(heddle_model* model) const { heddle_model_close(model); }
};
using ModelHandle = std::unique_ptr<heddle_model, CloseModel>;
struct FreeGeneration {
  void operator()(heddle_generation* generation) const { heddle_generation_free(generation); }
};
using GenerationHandle = std::unique_ptr<heddle_generation, FreeGeneration>;

inline ModelHandle open_on_cpu(const std::string& name) {
  const heddle_model_options options = cpu_options();
  heddle_model* model = nullptr;
  heddle_error error{};
  EXPECT_EQ(heddle_model_open(name.c_str(), &options, &model, &error), HEDDLE_OK) << error.message;
  return ModelHandle(model);
}

// A request for a text of the most likely tokens.
inline heddle_request greedy(const char* prompt, uint32_t max_tokens) {
  heddle_request request;
  heddle_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

inline GenerationHandle start(const ModelHandle& model, const heddle_request& request) {
  heddle_generation* generation = nullptr;
  heddle_error error{};
  EXPECT_EQ(heddle_generation_start(model.get(), &request, &generation, &error), HEDDLE_OK) << error.message;
  return GenerationHandle(generation);
}

// Takes all pieces; their text.
inline std::string take_all(const GenerationHandle& generation) {
  std::string text;
  heddle_error error{};
  const heddle_piece* piece = nullptr;
  heddle_status status = HEDDLE_OK;
  while ((status = heddle_generation_next(generation.get(), &piece, &error)) == HEDDLE_OK && piece)
    text.append(piece->text, piece->length);
  EXPECT_EQ(status, HEDDLE_OK) << error.message;
  return text;
}

inline std::string generated(const ModelHandle& model, const heddle_request& request) {
  const GenerationHandle generation = start(model, request);
  return generation ? take_all(generation) : "";
}

// What starting it is refused with.
inline std::string refused(const ModelHandle& model, const heddle_request& request) {
  heddle_generation* generation = nullptr;
  heddle_error error{};
  EXPECT_EQ(heddle_generation_start(model.get(), &request, &generation, &error), HEDDLE_INVALID);
  EXPECT_EQ(generation, nullptr);
  return error.message;
}

}  // namespace heddle::test
