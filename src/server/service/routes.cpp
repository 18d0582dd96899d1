// Every path of the server and the handler behind it. A new protocol adds its lines to this table.
#include <algorithm>

#include "server/api/anthropic/anthropic.h"
#include "server/api/completions/completions.h"
#include "server/api/embeddings.h"
#include "server/api/llama_cpp/llama_completion.h"
#include "server/api/ollama/ollama.h"
#include "server/api/openai/openai_chat.h"
#include "server/api/rerank.h"
#include "server/api/responses/responses.h"
#include "server/api/tokenize.h"
#include "server/service/service_state.h"
#include "server/status/status.h"
#include "server/status/web_page.h"

namespace heddle::server {
namespace {

using Needs = Route::Rules::Needs;

constexpr Route::Rules generates{.has_body = true, .is_generation = true, .has_trace = true, .generates = true},
    embeds{.has_body = true, .is_generation = true}, uses_tokenizer{.has_body = true},
    about_models{.needs = Needs::models}, asks_about_model{.needs = Needs::models, .has_body = true},
    about_server{.needs = Needs::nothing}, without_key{.needs_key = false, .needs = Needs::nothing};

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
    // Cohere's, Jina's and others
    {"POST", "/v1/rerank", rerank, embeds},
    {"POST", "/v2/rerank", rerank, embeds},
    {"POST", "/rerank", rerank, embeds},
    {"GET", "/v1/models", list_models, about_models},
    {"GET", models_path, show_model, about_models},
    // Anthropic's API
    {"POST", "/v1/messages", create_message, generates, anthropic_error, "request-id"},
    {"POST", "/v1/messages/count_tokens", count_message_tokens, uses_tokenizer, anthropic_error, "request-id"},
    {"GET", "/v1/models", list_anthropic_models, about_models, anthropic_error, "request-id", "anthropic-version"},
    {"GET", models_path, show_anthropic_model, about_models, anthropic_error, "request-id", "anthropic-version"},
    // Ollama's API
    {"POST", "/api/chat", ollama_chat, generates, ollama_error},
    {"POST", "/api/generate", ollama_generate, generates, ollama_error},
    {"POST", "/api/embed", ollama_embed, embeds, ollama_error},
    {"POST", "/api/embeddings", ollama_embeddings, embeds, ollama_error},
    {"GET", "/api/tags", ollama_tags, about_models, ollama_error},
    {"POST", "/api/show", ollama_show, asks_about_model, ollama_error},
    {"GET", "/api/ps", ollama_ps, about_models, ollama_error},
    {"GET", "/api/version", ollama_version, about_server, ollama_error},
    {"POST", "/api/pull", ollama_pull, asks_about_model, ollama_error},
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
    // llama.cpp's server
    {"POST", "/completion", llama_completion, generates, llama_error},
    {"POST", "/completions", llama_completion, generates, llama_error},
    {"POST", "/infill", infill, generates, llama_error},
    {"POST", "/embedding", llama_embedding, embeds, llama_error},
    {"POST", "/embeddings", llama_embedding, embeds, llama_error},
    {"POST", "/v1/reranking", rerank, embeds},
    {"POST", "/reranking", rerank, embeds},
    {"GET", "/props", show_props, about_models, llama_error},
    {"GET", "/slots", show_slots, about_models, llama_error},
    {"GET", "/models", list_models, about_models, llama_error},
    {"POST", "/models/load", load_model, asks_about_model, llama_error},
    {"POST", "/models/unload", unload_model, asks_about_model, llama_error},
    // vLLM's server
    {"GET", "/version", show_version, about_server},
    {"GET", "/load", show_load, about_server},
    {"GET", "/ping", show_ready, without_key},
    {"POST", "/ping", show_ready, without_key},
    // the state of the server
    {"GET", "/v1/effective-config", show_config, about_models},
    {"GET", "/v1/traces", show_traces, about_server},
    // the page; "/" itself is for programs too
    {"GET", "/", show_root, without_key},
    {"GET", "/status", show_status_page, without_key},
    {"GET", page_path, show_page_file, without_key},
    {"GET", "/metrics", show_metrics, about_server},
    {"GET", "/health/live", show_live, without_key},
    {"GET", "/health/ready", show_ready, without_key},
    {"GET", "/health", show_ready, without_key},
};

// How many bytes two paths share, up to the end of a segment: "/v1/a/b" and "/v1/a/c" share "/v1/a".
size_t shared_segments(std::string_view a, std::string_view b) {
  size_t shared = 0;
  for (size_t at = 1; at <= std::min(a.size(), b.size()); ++at) {
    const auto ends = [at](std::string_view path) { return at == path.size() || path[at] == '/'; };
    if (ends(a) && ends(b)) shared = at;
    if (at < std::min(a.size(), b.size()) && a[at] != b[at]) break;
  }
  return shared;
}

}  // namespace

FoundRoute find_route(const HttpRequest& request) {
  FoundRoute found;
  // the response to HEAD is that to GET without its body, which the connection leaves out
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  size_t nearest = 0;
  for (const Route& route : table) {
    if (const size_t shared = shared_segments(request.path, route.path); shared > nearest) {
      nearest = shared;
      found.error_body = route.error_body;
    }
    const bool is_prefix = route.path.ends_with('/') && route.path != "/";
    const bool matches = is_prefix ? request.path.starts_with(route.path) : request.path == route.path;
    if (!matches || (!route.only_with.empty() && !request.header(route.only_with))) continue;
    if (route.method == method) found.route = &route;
    if (found.allowed.find(route.method) == std::string::npos)
      found.allowed.append(found.allowed.empty() ? "" : ", ")
          .append(route.method == "GET" ? "GET, HEAD" : route.method);
  }
  return found;
}

}  // namespace heddle::server
