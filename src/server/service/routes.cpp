// Every path of the server and the handler behind it. A new protocol adds its lines to this table.
#include "server/api/completions/completions.h"
#include "server/api/embeddings.h"
#include "server/api/ollama/ollama.h"
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
    // Ollama's API
    {"GET", "/", show_running, without_key, ollama_error},
    {"POST", "/api/chat", ollama_chat, generates, ollama_error},
    {"POST", "/api/generate", ollama_generate, generates, ollama_error},
    {"POST", "/api/embed", ollama_embed, embeds, ollama_error},
    {"POST", "/api/embeddings", ollama_embeddings, embeds, ollama_error},
    {"GET", "/api/tags", ollama_tags, about_model, ollama_error},
    {"POST", "/api/show", ollama_show, uses_tokenizer, ollama_error},
    {"GET", "/api/ps", ollama_ps, about_model, ollama_error},
    {"GET", "/api/version", ollama_version, about_server, ollama_error},
    {"POST", "/api/pull", ollama_pull, uses_tokenizer, ollama_error},
    {"POST", "/api/create", ollama_has_no_store, about_server, ollama_error},
    {"POST", "/api/copy", ollama_has_no_store, about_server, ollama_error},
    {"POST", "/api/push", ollama_has_no_store, about_server, ollama_error},
    {"DELETE", "/api/delete", ollama_has_no_store, about_server, ollama_error},
    {"POST", "/api/blobs/", ollama_has_no_store, about_server, ollama_error},
    {"GET", "/api/blobs/", ollama_has_no_store, about_server, ollama_error},
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
    const bool is_prefix = route.path.ends_with('/') && route.path != "/";
    const bool matches = is_prefix ? request.path.starts_with(route.path) : request.path == route.path;
    if (!matches) continue;
    if (route.method == method) found.route = &route;
    found.allowed.append(found.allowed.empty() ? "" : ", ").append(route.method);
  }
  return found;
}

}  // namespace heddle::server
