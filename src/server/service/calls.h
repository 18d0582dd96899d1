// The requests that need the model, one function each: from the body to the answer, or to the job that will give it.
// All throw an ApiError for what cannot be done.
#pragma once
#include <memory>

#include "server/service/exchange.h"
#include "server/service/served_model.h"
#include "server/status/trace.h"

namespace heddle::server {

struct Call {
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<const ServedModel> model;
  TraceLevel trace = TraceLevel::none;
};

void chat_call(const Call& call);        // /v1/chat/completions
void completion_call(const Call& call);  // /v1/completions
void embedding_call(const Call& call);   // /v1/embeddings
void tokenize_call(const Call& call);    // /tokenize
void detokenize_call(const Call& call);  // /detokenize
void template_call(const Call& call);    // /apply-template

}  // namespace heddle::server
