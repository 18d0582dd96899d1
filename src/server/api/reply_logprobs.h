// Log-probabilities in the two shapes of OpenAI's API.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/replies.h"

namespace heddle::server {

// Chats: a list of tokens, each with its bytes and the most likely ones in its place.
void append_chat_logprobs(std::string& out, const std::vector<TokenReport>& reports);
// Completions: four lists, one element per token each. `text`: what the tokens make, `offset`: characters before it.
void append_completion_logprobs(std::string& out, const std::vector<TokenReport>& reports, std::string_view text,
                                size_t offset);

}  // namespace heddle::server
