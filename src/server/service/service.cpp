// From a request to the page or the call that answers it.
#include "server/service/service.h"

#include <algorithm>

#include "base/utf8.h"
#include "server/http/origins.h"
#include "server/service/refusals.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

constexpr size_t small_body = 8192;  // bytes: such a request hardly holds up the network
constexpr size_t max_waiting = 1024, most_waiting_bytes = 256u << 20;  // requests that wait for a worker

bool same_word(std::string_view a, std::string_view b) {  // in any case
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// A body is JSON, and called so or nothing. A form is refused although curl -d calls every body one: what a browser
// sends without asking first, a page of any site can send; nor may what a browser sends be called nothing.
void expect_json(const HttpRequest& request) {
  if (const std::string* encoding = request.header("content-encoding"); encoding && !same_word(*encoding, "identity"))
    throw ApiError(415, "invalid_request_error", "unsupported_media_type", "",
                   "Content-Encoding: expected none, found {}", in_quotes(*encoding));
  const std::string* type = request.header("content-type");
  if (!type && !request.header("origin")) return;
  if (!type)
    throw ApiError(415, "invalid_request_error", "unsupported_media_type", "",
                   "Content-Type: expected application/json, found none");
  std::string_view name = *type;
  name = name.substr(0, name.find(';'));
  while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
  if (same_word(name, "application/json")) return;
  throw ApiError(415, "invalid_request_error", "unsupported_media_type", "",
                 "Content-Type: expected application/json, found {} (curl: -H 'Content-Type: application/json')",
                 in_quotes(*type));
}

// Whatever goes wrong becomes an answer.
template <class Work>
void guarded(Exchange& exchange, Work&& work) {
  try {
    work();
  } catch (const ApiError& error) {
    exchange.fail(error);
  } catch (const Error& error) {
    exchange.fail(bad_field("", "{}", error.what()));
  } catch (const std::exception& error) {
    exchange.fail(server_fault(error.what()));
  }
}

// What a browser asks before it lets a page of another site send a request.
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

Service::State::State(ServiceOptions options)
    : options_(std::move(options)),
      keys_(options_.keys),
      traffic_(std::make_shared<Traffic>(options_.log, options_.log_prompts)),
      workers_(std::in_place, 2, max_waiting, most_waiting_bytes) {
  const std::string& origin = options_.cors_origin;
  if (!origin.empty() && origin != "*" && !is_origin(origin))
    throw Error("CORS: expected an origin or *, found {}", in_quotes(origin));
}

Service::State::~State() {
  drain();
  workers_.reset();
  traffic_->cancel_all();
  traffic_->wait_until_quiet();
}

void Service::State::serve(Served served) {
  auto model = std::make_shared<const ServedModel>(std::move(served));
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

void Service::State::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void Service::State::handle(HttpRequest request, std::shared_ptr<Answer> answer) {
  const auto exchange = Exchange::open(traffic_, std::move(request), std::move(answer), options_.cors_origin);
  guarded(*exchange, [&] { dispatch(exchange); });
}

void Service::State::refuse(HttpRequest head, std::shared_ptr<Answer> answer, const ApiError& why) {
  const auto exchange = Exchange::open(traffic_, std::move(head), std::move(answer), options_.cors_origin);
  if (const Route* route = find(exchange->request()).route) exchange->set_route(std::string(route->path));
  exchange->fail(why);
}

void Service::State::admit(const HttpRequest& head) const {
  const Route* route = find(head).route;
  if (!route || route->for_all) return;
  if (!keys_.allow(head.header("authorization")))
    throw ApiError(401, "invalid_request_error", "invalid_api_key", "",
                   "expected an API key that is known here: Authorization: Bearer KEY");
  const std::string* origin = head.header("origin");
  const std::string& known = options_.cors_origin;
  if (options_.keys.empty() && origin && *origin != known && known != "*" && may_be_taken_over(*origin))
    throw ApiError(403, "invalid_request_error", "unknown_origin", "",
                   "pages of {} may not use this server: it was started without API keys, and without --cors for them",
                   in_quotes(*origin, 100));
}

void Service::State::dispatch(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const Found found = find(request);
  if (!found.route) return no_route(*exchange, found.allowed);
  const Route& route = *found.route;
  exchange->set_route(std::string(route.path));
  admit(request);
  if (!request.query.empty())
    throw bad_field(request.query.substr(0, std::min(request.query.find_first_of("=&"), size_t(100))),
                    "{}: expected nothing behind the path, found ?{}", route.path, in_quotes(request.query, 100));
  const TraceLevel trace = trace_level(request.header("x-trace-level"));
  if (trace != TraceLevel::none && !route.traced)
    throw bad_field("X-Trace-Level", "X-Trace-Level: expected with chats and completions, found with {}", route.path);
  if (route.page) return (this->*route.page)(*exchange);
  expect_json(request);
  const size_t size = request.body.size();
  // texts that DRY does not reach across are looked for in the whole vocabulary
  if (size <= small_body && request.body.find("\"dry_") == std::string::npos) return call(exchange, route, trace);
  if (!workers_->push(size, [=, this, &route] { guarded(*exchange, [&] { call(exchange, route, trace); }); }))
    throw busy("too many long requests wait to be read: try again later", model()->engine().metrics());
}

void Service::State::call(const std::shared_ptr<Exchange>& exchange, const Route& route, TraceLevel trace) {
  if (exchange->given_up() == GivenUp::gone) return exchange->end_gone();
  route.call({exchange, model(route.new_work), trace});
}

Service::State::Found Service::State::find(const HttpRequest& request) {
  Found found;
  for (const Route& route : routes()) {
    const bool here = route.path.ends_with('/') ? request.path.starts_with(route.path) : request.path == route.path;
    if (!here) continue;
    if (route.method == request.method) found.route = &route;
    found.allowed.append(found.allowed.empty() ? "" : ", ").append(route.method);
  }
  return found;
}

void Service::State::no_route(Exchange& exchange, std::string allowed) const {
  const HttpRequest& request = exchange.request();
  if (allowed.empty())
    throw ApiError(404, "invalid_request_error", "unknown_url", "", "There is no {} here",
                   in_quotes(request.path, 100));
  if (!options_.cors_origin.empty()) {
    allowed += ", OPTIONS";
    if (request.method == "OPTIONS") return exchange.send(preflight(request, allowed));
  }
  const ApiError error(405, "invalid_request_error", "method_not_supported", "", "{}: expected {}, found {}",
                       request.path, allowed, in_quotes(request.method));
  exchange.fail(error, {{"Allow", allowed}});
}

std::shared_ptr<const ServedModel> Service::State::model(bool new_work) const {
  const std::lock_guard lock(mutex_);
  if (!model_) throw unavailable("the model is being loaded");
  if (new_work && draining_) throw unavailable("the server is about to end and takes no more requests");
  return model_;
}

Service::Service(ServiceOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Service::~Service() = default;
void Service::serve(Served served) { state_->serve(std::move(served)); }
void Service::drain() { state_->drain(); }
size_t Service::under_way() const { return state_->traffic().under_way(); }
void Service::cancel_all() { state_->traffic().cancel_all(); }
void Service::admit(const HttpRequest& head) const { state_->admit(head); }
void Service::refuse(HttpRequest head, std::shared_ptr<Answer> answer, const ApiError& why) {
  state_->refuse(std::move(head), std::move(answer), why);
}
void Service::handle(HttpRequest request, std::shared_ptr<Answer> answer) {
  state_->handle(std::move(request), std::move(answer));
}

}  // namespace heddle::server
