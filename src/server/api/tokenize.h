// POST /tokenize and /detokenize: the model's tokenizer alone.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"

namespace heddle::server {

struct Call;

struct TokenizeRequest {
  std::string content;
  bool add_special = false, parse_special = true, with_pieces = false;
};
struct DetokenizeRequest {
  std::vector<text::TokenId> tokens;
  bool special = true;  // write control tokens as well
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
TokenizeRequest read_tokenize(std::string_view body, const RequestRules& rules);
DetokenizeRequest read_detokenize(std::string_view body, const RequestRules& rules);

void tokenize(const Call& call);
void detokenize(const Call& call);

}  // namespace heddle::server
