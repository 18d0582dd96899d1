// From a request to the handler of its route, and from what goes wrong to an error response. Before that: API keys,
// origins and workers.
#include "server/service/service.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "server/http/inflate.h"
#include "server/http/query.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

// The key in "Bearer KEY"; the scheme may be in any case.
std::string_view bearer_key(std::string_view header) {
  constexpr std::string_view scheme = "bearer";
  const bool matches =
      header.size() > scheme.size() && header[scheme.size()] == ' ' &&
      std::equal(scheme.begin(), scheme.end(), header.begin(), [](char a, char b) { return a == (b | 0x20); });
  if (!matches) return {};
  header.remove_prefix(scheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

std::string_view key_of(const HttpRequest& request) {
  std::string_view key;
  for (const std::string_view name : {"api-key", "x-api-key"})
    if (const std::string* header = request.header(name)) key = *header;
  if (const std::string* authorization = request.header("authorization")) key = bearer_key(*authorization);
  return key;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.empty()) throw Error("API keys: expected a key, found an empty one");
    digests_.push_back(digest(key));
  }
}

// Digests are compared instead of keys: they have one length, whatever a client sends.
ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

bool ApiKeys::allow(const HttpRequest& request) const {
  if (digests_.empty()) return true;
  const Digest given = digest(key_of(request));
  unsigned found = 0;  // all keys are compared, even after the right one
  for (const Digest& digest : digests_) found |= CRYPTO_memcmp(given.data(), digest.data(), given.size()) == 0;
  return found != 0;
}

uint64_t ApiKeys::client(const HttpRequest& request) {
  const Digest given = digest(key_of(request));
  uint64_t client = 0;
  std::memcpy(&client, given.data(), sizeof client);
  return client;
}

bool can_be_rebound(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    std::string_view host = origin.substr(scheme.size());
    if (host.starts_with('[')) return false;
    host = host.substr(0, host.find(':'));
    if (host.find('.') == std::string_view::npos || host.ends_with(".localhost")) return false;
    return !std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  }
  return false;
}

bool is_origin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; }) &&
         host.find_first_of("/?#@") == std::string_view::npos;
}

Workers::Workers(size_t threads, size_t max_waiting, size_t max_bytes)
    : max_waiting_(max_waiting), max_bytes_(max_bytes) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Workers::push(size_t bytes, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    const bool fits = waiting_.empty() || (bytes_ <= max_bytes_ && bytes <= max_bytes_ - bytes_);
    if (stopping_ || waiting_.size() >= max_waiting_ || !fits) return false;
    waiting_.push_back({bytes, std::move(task)});
    bytes_ += bytes;
  }
  changed_.notify_one();
  return true;
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= task.bytes;
    lock.unlock();
    task.run();
    task.run = nullptr;  // what it holds is destroyed without the lock
    lock.lock();
  }
}

namespace {

constexpr size_t small_body = 8192;  // bytes: read by the network thread, at once
constexpr size_t worker_threads = 2;
constexpr size_t max_waiting = 1024, max_waiting_bytes = 256u << 20;  // requests that wait for a worker

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// A body is application/json, or has no type. A form is refused although curl -d calls every body one: browsers send
// forms for the pages of any site without asking the server first. So they do with a body without a type, which is
// refused if it has an origin.
void expect_json(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (!type && !request.header("origin")) return;
  if (!type) throw ApiError(415, "unsupported_media_type", "", "Content-Type: expected application/json, found none");
  std::string_view name = *type;
  name = name.substr(0, name.find(';'));
  while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
  if (equal_ignoring_case(name, "application/json")) return;
  throw ApiError(415, "unsupported_media_type", "",
                 "Content-Type: expected application/json, found {} (curl: -H 'Content-Type: application/json')",
                 in_quotes(*type));
}

// Turns every exception into a response: an ApiError is the fault of the request, anything else of the server.
template <class Work>
void guarded(Exchange& exchange, Work&& work) {
  try {
    work();
  } catch (const ApiError& error) {
    exchange.fail(error);
  } catch (const std::bad_alloc&) {
    exchange.fail(unavailable("the server has not enough memory for this request now: try again later"));
  } catch (const std::exception& error) {
    exchange.fail(server_fault(error.what()));
  }
}

// The response to a preflight request, which a browser sends before a page of another site may send its own.
HttpResponse preflight(const HttpRequest& request, const std::string& allowed) {
  HttpResponse response{.status = 204,
                        .headers = {{"Access-Control-Allow-Methods", allowed}, {"Access-Control-Max-Age", "86400"}}};
  const std::string* headers = request.header("access-control-request-headers");
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == ',' || c == ' ';
  };
  if (headers && std::all_of(headers->begin(), headers->end(), is_name))
    response.headers.push_back({"Access-Control-Allow-Headers", *headers});
  return response;
}

}  // namespace

ServiceState::ServiceState(ServiceOptions options)
    : options_(std::move(options)),
      traffic_(std::make_shared<Traffic>(options_.log, options_.log_prompts)),
      responses_(std::make_shared<ResponseStore>(ResponseStore::Limits{.bytes = options_.store_bytes})),
      workers_(worker_threads, max_waiting, max_waiting_bytes),
      models_(std::in_place, options_.models),
      keys_(std::make_shared<const ApiKeys>(options_.keys)) {
  const std::string& origin = options_.cors_origin;
  if (!origin.empty() && origin != "*" && !is_origin(origin))
    throw Error("CORS: expected an origin or *, found {}", in_quotes(origin));
  if (options_.heartbeat_seconds > 0)
    heartbeats_ = std::jthread([this](const std::stop_token& stop) { send_heartbeats(stop); });
}

ServiceState::~ServiceState() {
  drain();
  workers_.stop();
  traffic_->cancel_all();
  traffic_->wait_until_idle();
  models_.reset();
}

void ServiceState::send_heartbeats(const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const std::chrono::duration<double> period(std::min(1.0, options_.heartbeat_seconds / 4));
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, period, [] { return false; });
    traffic_->beat(options_.heartbeat_seconds);
  }
}

void ServiceState::set_keys(const std::vector<std::string>& keys) {
  auto replacement = std::make_shared<const ApiKeys>(keys);
  const std::lock_guard lock(mutex_);
  keys_ = std::move(replacement);
}

TrafficCounts ServiceState::counts() const {
  TrafficCounts counts = traffic_->counts();
  if (options_.lost_lines) counts.log_lines_lost = options_.lost_lines();
  return counts;
}

std::shared_ptr<const ApiKeys> ServiceState::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

void ServiceState::retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
}

void ServiceState::drain() {
  retire();
  traffic_->drain();
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

bool ServiceState::retired() const {
  const std::lock_guard lock(mutex_);
  return retired_;
}

bool ServiceState::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

void ServiceState::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  const auto exchange = Exchange::open(traffic_, std::move(request), std::move(responder), options_.cors_origin);
  guarded(*exchange, [&] { dispatch(exchange); });
}

void ServiceState::refuse(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why) {
  const auto exchange = Exchange::open(traffic_, std::move(head), std::move(responder), options_.cors_origin);
  const FoundRoute found = find_route(exchange->request());
  exchange->set_error_body(found.error_body);
  if (found.route) exchange->set_route(*found.route);
  exchange->fail(why);
}

void ServiceState::admit(const HttpRequest& head) const {
  const Route* route = find_route(head).route;
  if (!route || !route->rules.needs_key || (options_.metrics_open && route->handler == show_metrics)) return;
  const auto keys = this->keys();
  if (!keys->allow(head))
    throw ApiError(401, "invalid_api_key", "",
                   "expected an API key of this server: Authorization: Bearer KEY, or x-api-key: KEY");
  const std::string* origin = head.header("origin");
  const std::string& allowed = options_.cors_origin;
  if (keys->size() == 0 && origin && *origin != allowed && allowed != "*" && can_be_rebound(*origin))
    throw ApiError(403, "unknown_origin", "",
                   "pages of {} may not use this server: it was started without API keys, and without --cors for them",
                   in_quotes(*origin, 100));
}

void ServiceState::dispatch(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const FoundRoute found = find_route(request);
  exchange->set_error_body(found.error_body);
  if (!found.route) return no_route(*exchange, found.allowed);
  const Route& route = *found.route;
  exchange->set_route(route);
  admit(request);
  if (keys()->size() > 0) exchange->set_client(ApiKeys::client(request));
  const TraceLevel trace = trace_level(request.header("x-trace-level"));
  if (trace != TraceLevel::none && !route.rules.has_trace)
    throw bad_field("X-Trace-Level", "X-Trace-Level: expected with chats and completions, found with {}", route.path);
  if (route.rules.has_body) expect_json(request);
  const size_t size = request.body.size();
  const std::string* encoding = request.header("content-encoding");
  const bool is_small = size <= small_body && (!encoding || is_identity(*encoding));
  if (!route.rules.has_body || is_small) return call(exchange, route, trace);
  on_worker(exchange, size, [this, exchange, &route, trace] { call(exchange, route, trace); });
}

// The name of the model that a request asks for; empty: it names none. With one model, the handler looks at the name.
std::string ServiceState::asked_model(const Exchange& exchange, const Route& route) const {
  if (models_->size() == 1) return {};
  const HttpRequest& request = exchange.request();
  std::string name =
      route.rules.has_body ? model_field(request.body) : query_value(request.query, "model").value_or("");
  if (models_->find(name)) return name;
  if (!options_.any_model) throw model_not_found(name, models_->names());
  return {};
}

void ServiceState::call(const std::shared_ptr<Exchange>& exchange, const Route& route, TraceLevel trace) {
  using Needs = Route::Rules::Needs;
  if (exchange->cancelled() == Cancelled::client_gone) return exchange->end_cancelled();
  if (route.rules.needs != Needs::nothing && models_->empty()) throw unavailable("the model is being loaded");
  if (route.rules.is_generation && draining())
    throw unavailable("the server is shutting down and takes no more requests");
  if (route.rules.has_body) exchange->expand_body(options_.max_body);
  if (route.rules.needs != Needs::model) return call_with(nullptr, exchange, route, trace);
  models_->request(*models_->find(asked_model(*exchange, route)), exchange,
                   [this, exchange, &route, trace](std::shared_ptr<const ServedModel> model) {
                     guarded(*exchange, [&] { call_with(std::move(model), exchange, route, trace); });
                   });
}

void ServiceState::call_with(std::shared_ptr<const ServedModel> model, const std::shared_ptr<Exchange>& exchange,
                             const Route& route, TraceLevel trace) {
  if (exchange->cancelled() == Cancelled::client_gone) return exchange->end_cancelled();
  if (route.rules.generates && !model->card().generates)
    throw ApiError(400, "", "model", "{} generates no text: it is {}", model->card().name,
                   model->card().ranks ? "a reranker, which scores documents (POST /v1/rerank)"
                                       : "an encoder, which gives embeddings (POST /v1/embeddings)");
  route.handler({*this, exchange, std::move(model), trace});
}

void ServiceState::on_worker(const std::shared_ptr<Exchange>& exchange, size_t bytes, std::function<void()> work) {
  if (workers_.push(bytes, [exchange, work = std::move(work)] { guarded(*exchange, work); })) return;
  throw busy("too many long requests wait to be read: try again later", engine::Metrics());
}

void ServiceState::no_route(Exchange& exchange, std::string allowed) const {
  const HttpRequest& request = exchange.request();
  if (request.method == "OPTIONS" && request.path == "*") allowed = "GET, HEAD, POST";  // about the whole server
  if (allowed.empty()) throw ApiError(404, "unknown_url", "", "There is no {} here", in_quotes(request.path, 100));
  allowed += ", OPTIONS";
  if (request.method == "OPTIONS") {
    HttpResponse response = options_.cors_origin.empty() ? HttpResponse{.status = 204} : preflight(request, allowed);
    response.headers.push_back({"Allow", allowed});
    return exchange.send(std::move(response));
  }
  const ApiError error(405, "method_not_supported", "", "{}: expected {}, found {}", request.path, allowed,
                       in_quotes(request.method));
  exchange.fail(error, {{"Allow", allowed}});
}

void Call::expect_model(const std::string& name) const {
  const std::string& own = model->card().name;
  if (!name.empty() && service.models().find(name) != own && !service.options().any_model)
    throw model_not_found(name, service.models().names());
  exchange->log().model = own;
}

ListedModel Call::describe(std::string_view name) const {
  if (!service.models().find(name)) {
    if (!service.options().any_model) throw model_not_found(name, service.models().names());
    name = {};
  }
  return service.models().describe(name);
}

bool Call::is_strict() const { return service.options().strict; }
bool Call::unloads_models() const { return service.models().unloads_models(); }

void Call::tell_ignored(const IgnoredFields& ignored) const {
  if (!ignored.names().empty())
    exchange->add_header("X-Heddle-Ignored", fmt::format("{}", fmt::join(ignored.names(), ", ")));
}

void Call::on_worker(size_t bytes, std::function<void()> work) const {
  service.on_worker(exchange, bytes, std::move(work));
}

Service::Service(ServiceOptions options) : state_(std::make_unique<ServiceState>(std::move(options))) {}
Service::~Service() = default;
void Service::serve(Served served, std::vector<std::string> names) {
  state_->models().serve(std::move(served), std::move(names));
}
void Service::load(std::string_view model) { state_->models().load(model); }
void Service::serve(std::vector<Loadable> models) { state_->models().serve(std::move(models)); }
std::string Service::fault() const { return state_->models().fault(); }
void Service::retire() { state_->retire(); }
void Service::drain() { state_->drain(); }
void Service::set_keys(const std::vector<std::string>& keys) { state_->set_keys(keys); }
size_t Service::in_progress() const { return state_->traffic().in_progress(); }
size_t Service::to_drain() const { return state_->traffic().to_drain(); }
void Service::cancel_all() { state_->traffic().cancel_all(); }
void Service::connection_refused() { state_->traffic().connection_refused(); }
void Service::admit(const HttpRequest& head) const { state_->admit(head); }
void Service::refuse(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why) {
  state_->refuse(std::move(head), std::move(responder), why);
}
void Service::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  state_->handle(std::move(request), std::move(responder));
}

}  // namespace heddle::server
