// The texts are those that llama.cpp takes for the end of a generation.
#include "text/end_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace heddle::text {
namespace {

// Tokens with these texts end an answer in every model that has them, and are control tokens whatever their type.
constexpr std::array end_texts{
    std::string_view("<|eot_id|>"),
    std::string_view("<|im_end|>"),
    std::string_view("<|end|>"),
    std::string_view("<|return|>"),
    std::string_view("<|call|>"),
    std::string_view("<|flush|>"),
    std::string_view("<|calls|>"),
    std::string_view("<end_of_turn>"),
    std::string_view("<|endoftext|>"),
    std::string_view("</s>"),
    std::string_view("<|eom_id|>"),
    std::string_view("<EOT>"),
    std::string_view("_<EOT>"),
    std::string_view("[EOT]"),
    std::string_view("[EOS]"),
    std::string_view("<|end_of_text|>"),
    std::string_view("<end_of_utterance>"),
    std::string_view("<eos>"),
    std::string_view("<turn|>"),
    std::string_view("<|tool_response>"),
    std::string_view("<\uff5cend\u2581of\u2581sentence\uff5c>"),
    std::string_view("[e~["),
};
// Code models fill in the middle of a file: what comes after the file is not theirs to write.
constexpr std::array file_end_texts{
    std::string_view("<|fim_pad|>"),   std::string_view("<fim-pad>"),    std::string_view("<fim_pad>"),
    std::string_view("<PAD>"),         std::string_view("[PAD]"),        std::string_view("<|fim_repo|>"),
    std::string_view("<|repo_name|>"), std::string_view("<fim-repo>"),   std::string_view("<REPO>"),
    std::string_view("<reponame>"),    std::string_view("<|file_sep|>"),
};

// Where a model has texts of its own to end a turn, these are not ends.
bool is_no_end(const Pipeline& pipeline, std::string_view text) {
  if (text == "<|end|>")  // ends a message, not the turn, of harmony and Solar
    return (pipeline.has("<|return|>") && pipeline.has("<|call|>")) ||
           (pipeline.has("<|flush|>") && (pipeline.has("<|call|>") || pipeline.has("<|calls|>")));
  return text == "</s>" && pipeline.has("<|tool_response>");  // plain text to Gemma 4
}

void add_end_token(Pipeline& pipeline, TokenId id) {
  if (std::find(pipeline.end_tokens.begin(), pipeline.end_tokens.end(), id) == pipeline.end_tokens.end())
    pipeline.end_tokens.push_back(id);
}

}  // namespace

void add_end_tokens(Pipeline& pipeline, bool untyped, std::initializer_list<std::optional<TokenId>> named) {
  for (const std::string_view text : end_texts) {
    const auto found = pipeline.ids.find(std::string(text));
    if (found == pipeline.ids.end() || is_no_end(pipeline, text)) continue;
    TokenType& type = pipeline.tokens[found->second].type;
    if (text == "</s>" && !untyped && type == TokenType::normal)
      continue;  // HTML, where the file says it is like others
    type = TokenType::control;
    add_end_token(pipeline, found->second);
  }
  for (const std::string_view text : file_end_texts)
    if (const auto found = pipeline.ids.find(std::string(text)); found != pipeline.ids.end())
      add_end_token(pipeline, found->second);
  for (const std::optional<TokenId> id : named)
    if (id && !is_no_end(pipeline, pipeline.tokens[*id].text)) add_end_token(pipeline, *id);
}

}  // namespace heddle::text
