// Bodies read against the small byte-level vocabulary, and what is wrong with those that are refused.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/api_error.h"
#include "server/api/completions/completions.h"
#include "server/api/openai/openai_chat.h"
#include "tests/support/refused.h"
#include "tests/text/small_vocabulary.h"

namespace heddle::server {

inline const RequestRules& small_rules() {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  static const RequestRules rules{tokenizer, 268};  // bytes, 256 "he" to 267 "<tool>"
  return rules;
}

template <class Read>
std::optional<ApiError> api_error_of(Read&& read) {
  try {
    read();
  } catch (const ApiError& error) {
    return error;
  }
  return std::nullopt;
}

// That `read` throws a 400 for this field, with these parts in its message, in this order.
template <class Read>
void expect_bad(Read&& read, std::string_view param, std::string_view code,
                std::initializer_list<std::string_view> parts) {
  const std::optional<ApiError> error = api_error_of(read);
  ASSERT_TRUE(error) << param << " was not refused";
  EXPECT_EQ(error->status, 400u);
  EXPECT_EQ(error->param, param);
  EXPECT_EQ(error->code, code);
  test::expect_says(error->what(), parts);
}

// {"prompt":"x", <fields>} and {"messages":[...], <fields>}
inline std::string with_prompt(std::string_view fields) {
  return fmt::format(R"({{"prompt":"x"{}{}}})", fields.empty() ? "" : ",", fields);
}
inline std::string with_message(std::string_view fields) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}{}}})", fields.empty() ? "" : ",", fields);
}
inline CompletionRequest complete(std::string_view fields) {
  return read_completion(with_prompt(fields), small_rules());
}
inline OpenAiChatRequest chat(std::string_view fields) { return read_chat(with_message(fields), small_rules()); }

}  // namespace heddle::server

#define EXPECT_BAD(expression, param, code, ...)                                         \
  do {                                                                                   \
    SCOPED_TRACE(#expression);                                                           \
    heddle::server::expect_bad([&] { (void)(expression); }, param, code, {__VA_ARGS__}); \
  } while (false)
