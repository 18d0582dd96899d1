// What llama.cpp's server has: POST /completion and /infill, GET /props and /slots.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/api/generation.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;
class Exchange;

// Texts and tokens, one after the other.
using MixedPrompt = std::vector<std::variant<std::string, text::TokenId>>;

struct LlamaCompletionRequest {
  std::string model;  // empty: absent
  std::vector<MixedPrompt> prompts;
  bool is_list = false;          // the response is a list: there were several prompts, or completions
  GenerationRequest generation;  // without the prompts
  bool stream = false, return_tokens = false;
  std::vector<std::string> response_fields;  // of the last document: all others are left out; empty: none is
};
struct InfillRequest {
  LlamaCompletionRequest completion;  // its prompt continues the prefix
  std::string prefix, suffix;
  struct File {
    std::string name, text;
  };
  std::vector<File> files;  // others of the project
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
LlamaCompletionRequest read_llama_completion(std::string_view body, const RequestRules& rules);
InfillRequest read_infill(std::string_view body, const RequestRules& rules);

// BOS first where the model wants it and the prompt does not begin with a token.
std::vector<text::TokenId> encode_mixed(const text::Tokenizer& tokenizer, const MixedPrompt& prompt);

// The tokens around the parts of a file that is filled in.
struct InfillTokens {
  std::optional<text::TokenId> prefix, suffix, middle, repository, file;
  std::vector<text::TokenId> ends;  // besides the model's own: no completion goes beyond them
};
InfillTokens infill_tokens(const text::Tokenizer& tokenizer);
// Throws an ApiError 501 that names the tokens that the vocabulary does not have.
std::vector<text::TokenId> encode_infill(const text::Tokenizer& tokenizer, const InfillRequest& request);

// {"error": {"code": 400, "message": ..., "type": "invalid_request_error"}}
std::string llama_error(const ApiError& error);

class LlamaWriter : public GenerationWriter {
 public:
  LlamaWriter(Exchange& exchange, const ServedModel& model, const LlamaCompletionRequest& request);
  void on_accepted() override;
  void on_text(uint32_t index, TextDelta delta) override;
  void on_finish(uint32_t index, const Finish& finish) override;
  void on_end(const Usage& usage, std::string_view trace) override;
  void on_error(const ApiError& error) override;

 private:
  struct Answer {
    std::string content;
    std::vector<text::TokenId> tokens;
    uint64_t generated = 0;            // tokens in the content so far
    std::vector<TokenLogprobs> probs;  // where they were asked for
    Finish finish;
    bool has_new_line = false;
  };
  nlohmann::ordered_json probabilities(const std::vector<TokenLogprobs>& tokens) const;
  nlohmann::ordered_json last_document(uint32_t index, const Usage& usage) const;

  Exchange& exchange_;
  const std::string model_;
  const bool stream_, is_list_, return_tokens_, with_probs_, after_sampling_;
  const std::vector<std::string> fields_;
  nlohmann::ordered_json settings_;
  std::vector<std::string> prompts_;     // their texts
  std::vector<uint64_t> prompt_tokens_;  // of each
  uint32_t n_;                           // completions of a prompt
  std::vector<Answer> answers_;
};

nlohmann::ordered_json generation_settings(const GenerationRequest& request);

void llama_completion(const Call& call);
void infill(const Call& call);
void show_props(const Call& call);
void show_slots(const Call& call);

}  // namespace heddle::server
