// Every path of the server and the handler behind it. A new protocol adds its lines to this table.
#include "server/api/completions/completions.h"
#include "server/api/embeddings.h"
#include "server/api/openai/openai_chat.h"
#include "server/api/responses/responses.h"
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
    {"POST", "/v1/responses", create_response, generates},
    {"GET", responses_path, show_response, about_server},
    {"DELETE", responses_path, delete_response, about_server},
    {"POST", responses_path, cancel_response, about_server},
    {"POST", "/v1/responses/input_tokens", count_response_tokens, uses_tokenizer},
    {"POST", "/v1/embeddings", embeddings, embeds},
    {"GET", "/v1/models", list_models, about_model},
    {"GET", models_path, show_model, about_model},
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
    if (!matches) continue;
    if (route.method == method) found.route = &route;
    found.allowed.append(found.allowed.empty() ? "" : ", ").append(route.method);
  }
  return found;
}

}  // namespace heddle::server
