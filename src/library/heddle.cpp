// The functions of heddle.h about models, tokens, embeddings and ranks; those about generations are in generation.cpp.
#include <heddle.h>

#include <memory>

#include "base/version.h"
#include "library/calls.h"
#include "library/options.h"
#include "library/prompt.h"
#include "library/shared_model.h"
#include "main/device/text_requests.h"

using namespace heddle::library;
using heddle::RunningModel;

const char* heddle_version(void) { return heddle::version; }

void heddle_free(void* memory) { std::free(memory); }

heddle_status heddle_model_open(const char* name, const heddle_model_options* options, heddle_model** model,
                                heddle_error* error) {
  std::string wanted;
  OpenOptions with;
  const heddle_status status = guarded(error, HEDDLE_INVALID, [&] {
    expect_given(model, "model");
    wanted = expect_text(name, "name");
    if (wanted.empty()) throw heddle::Error("name: expected a model, found an empty name");
    with = read_options(options);
  });
  if (status != HEDDLE_OK) return status;
  return guarded(error, HEDDLE_FAILED, [&] {
    auto opened = std::make_unique<heddle_model>();
    opened->shared = std::make_shared<SharedModel>(wanted, with);
    *model = opened.release();
  });
}

void heddle_model_close(heddle_model* model) {
  if (!model) return;
  const std::unique_ptr<heddle_model> closed(model);
  guarded(nullptr, HEDDLE_FAILED, [&] { closed->shared->close(); });
}

const heddle_model_info* heddle_model_get_info(const heddle_model* model) {
  return model ? &model->shared->info() : nullptr;
}

heddle_status heddle_tokenize(const heddle_model* model, const char* text, int32_t flags, uint32_t** tokens,
                              size_t* count, heddle_error* error) {
  return guarded(error, HEDDLE_INVALID, [&] {
    uint32_t*& to = expect_given(tokens, "tokens");
    size_t& size = expect_given(count, "count");
    const std::string copy = expect_text(text, "text");
    if (flags & ~(HEDDLE_ADD_SPECIAL | HEDDLE_PARSE_SPECIAL))
      throw heddle::Error("flags: expected HEDDLE_ADD_SPECIAL and HEDDLE_PARSE_SPECIAL, found {}", flags);
    const std::vector<uint32_t> ids = expect_given(model, "model").shared->with([&](const RunningModel& running) {
      return running.tokenizer().encode(copy, {.add_special = (flags & HEDDLE_ADD_SPECIAL) != 0,
                                               .parse_special = (flags & HEDDLE_PARSE_SPECIAL) != 0});
    });
    to = copied<uint32_t>(ids);
    size = ids.size();
  });
}

heddle_status heddle_detokenize(const heddle_model* model, const uint32_t* tokens, size_t count, int32_t special,
                                char** text, size_t* length, heddle_error* error) {
  return guarded(error, HEDDLE_INVALID, [&] {
    char*& to = expect_given(text, "text");
    if (count > 0) expect_given(tokens, "tokens");
    const std::string decoded = expect_given(model, "model").shared->with([&](const RunningModel& running) {
      return running.tokenizer().decode({tokens, count}, special != 0);
    });
    to = copied<char>(decoded);
    if (length) *length = decoded.size();
  });
}

heddle_status heddle_render_chat(const heddle_model* model, const char* messages, const char* variables, char** text,
                                 heddle_error* error) {
  return guarded(error, HEDDLE_INVALID, [&] {
    char*& to = expect_given(text, "text");
    const std::string list = expect_text(messages, "messages");
    to = copied<char>(expect_given(model, "model").shared->with([&](const RunningModel& running) {
      return render_chat(running, list, variables ? variables : "").text;
    }));
  });
}

heddle_status heddle_embed(heddle_model* model, const char* const* texts, size_t count, float** embeddings,
                           heddle_error* error) {
  return guarded(error, HEDDLE_INVALID, [&] {
    float*& to = expect_given(embeddings, "embeddings");
    const std::vector<std::string> copies = expect_texts(texts, count, "texts");
    const std::shared_ptr<SharedModel> shared = expect_given(model, "model").shared;
    std::vector<heddle::engine::Request> requests;
    shared->with([&](const RunningModel& running) {
      for (const std::string& text : copies) requests.push_back(heddle::embed_request(running, text));
    });
    std::vector<float> all;
    for (const heddle::engine::Event& event : shared->compute(std::move(requests))) {
      const std::vector<float> row = heddle::embedding_of(event);
      all.insert(all.end(), row.begin(), row.end());
    }
    to = copied<float>(all);
  });
}

heddle_status heddle_rank(heddle_model* model, const char* query, const char* const* documents, size_t count,
                          int32_t truncate, float** scores, heddle_error* error) {
  return guarded(error, HEDDLE_INVALID, [&] {
    float*& to = expect_given(scores, "scores");
    const std::string text = expect_text(query, "query");
    const std::vector<std::string> copies = expect_texts(documents, count, "documents");
    const std::shared_ptr<SharedModel> shared = expect_given(model, "model").shared;
    std::vector<heddle::engine::Request> requests = shared->with(
        [&](const RunningModel& running) { return heddle::rank_requests(running, text, copies, truncate != 0); });
    std::vector<float> all;
    for (const heddle::engine::Event& event : shared->compute(std::move(requests))) all.push_back(event.rank_score);
    to = copied<float>(all);
  });
}
