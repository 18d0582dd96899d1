// Every path of the server and the handler behind it. A new protocol adds its lines to this table.
#include "server/api/anthropic/anthropic.h"
#include "server/api/completions/completions.h"
#include "server/api/embeddings.h"
#include "server/api/openai/openai_chat.h"
#include "server/api/tokenize.h"
#include "server/service/service_state.h"
#include "server/status/status.h"

namespace heddle::server {
namespace {

constexpr Route::Rules generates{.has_body = true, .is_generation = true, .has_trace = true},
    embeds{.has_body = true, .is_generation = true}, uses_tokenizer{.has_body = true}, about_model{},
    about_server{.needs_model = false}, without_key{.needs_key = false, .needs_model = false};

constexpr Route table[] = {
    // OpenAI's API
    {"POST", "/v1/chat/completions", chat_completions, generates},
    {"POST", "/v1/completions", completions, generates},
    {"POST", "/v1/embeddings", embeddings, embeds},
    {"GET", "/v1/models", list_models, about_model},
    {"GET", models_path, show_model, about_model},
    // Anthropic's API
    {"POST", "/v1/messages", create_message, generates, anthropic_error, "request-id"},
    {"POST", "/v1/messages/count_tokens", count_message_tokens, uses_tokenizer, anthropic_error, "request-id"},
    {"GET", "/v1/models", list_anthropic_models, about_model, anthropic_error, "request-id", "anthropic-version"},
    {"GET", models_path, show_anthropic_model, about_model, anthropic_error, "request-id", "anthropic-version"},
    // the model's tokenizer and template
    {"POST", "/tokenize", tokenize, uses_tokenizer},
    {"POST", "/detokenize", detokenize, uses_tokenizer},
    {"POST", "/apply-template", apply_template, uses_tokenizer},
    // the state of the server
    {"GET", "/v1/effective-config", show_config, about_model},
    {"GET", "/metrics", show_metrics, about_server},
    {"GET", "/health/live", show_live, without_key},
    {"GET", "/health/ready", show_ready, without_key},
    {"GET", "/health", show_ready, without_key},
};

}  // namespace

FoundRoute find_route(const HttpRequest& request) {
  FoundRoute found;
  // the response to HEAD is that to GET without its body, which the connection leaves out
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Route& route : table) {
    const bool matches = route.path.ends_with('/') ? request.path.starts_with(route.path) : request.path == route.path;
    if (!matches || (!route.only_with.empty() && !request.header(route.only_with))) continue;
    if (route.method == method) found.route = &route;
    if (found.allowed.find(route.method) == std::string::npos)
      found.allowed.append(found.allowed.empty() ? "" : ", ").append(route.method);
  }
  return found;
}

}  // namespace heddle::server
