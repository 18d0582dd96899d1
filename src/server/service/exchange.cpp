#include "server/service/exchange.h"

#include <algorithm>

#include "server/service/random_id.h"

namespace heddle::server {
namespace {

// The client's own name for its request, if it can stand in a header and in a log.
std::string request_id(const HttpRequest& request) {
  const std::string* given = request.header("x-request-id");
  const bool sane = given && !given->empty() && given->size() <= 128 &&
                    std::all_of(given->begin(), given->end(), [](char c) { return c >= ' ' && c <= '~'; });
  return sane ? *given : random_id("req-");
}

}  // namespace

std::shared_ptr<Exchange> Exchange::open(std::shared_ptr<Traffic> traffic, HttpRequest request,
                                         std::shared_ptr<Answer> answer, std::string cors_origin) {
  std::shared_ptr<Exchange> exchange(
      new Exchange(std::move(traffic), std::move(request), std::move(answer), std::move(cors_origin)));
  exchange->traffic_->begin(exchange);
  exchange->answer_->when_gone([weak = std::weak_ptr(exchange)] {
    if (const auto found = weak.lock()) found->gone();
  });
  return exchange;
}

Exchange::Exchange(std::shared_ptr<Traffic> traffic, HttpRequest request, std::shared_ptr<Answer> answer,
                   std::string cors_origin)
    : traffic_(std::move(traffic)),
      cors_origin_(std::move(cors_origin)),
      request_(std::move(request)),
      answer_(std::move(answer)) {
  log_.time = std::chrono::system_clock::now();
  log_.id = request_id(request_);
  log_.peer = request_.peer;
  log_.method = request_.method;
  log_.path = request_.path;
  if (logs_prompts()) log_.body = request_.body;
}

Exchange::~Exchange() {
  if (ended_) return;
  log_.error = "not answered";
  end(started_ ? status_ : 500);
}

void Exchange::send(HttpResponse response) {
  if (ended_) return;
  add_headers(response);
  bytes_ += response.body.size();
  status_ = response.status;
  answer_->send(std::move(response));
  end(status_);
}

void Exchange::fail(const ApiError& error, std::vector<Header> more) {
  if (ended_) return;
  log_.error = error.what();
  if (!started_) {
    HttpResponse response = error_response(error);
    std::move(more.begin(), more.end(), std::back_inserter(response.headers));
    return send(std::move(response));
  }
  write("data: " + error_json(error) + "\n\n");  // and no "[DONE]" after it
  finish();
}

void Exchange::start(HttpResponse head) {
  if (ended_) return;
  add_headers(head);
  bytes_ += head.body.size();
  status_ = head.status;
  started_ = true;
  traffic_->stream_began();
  answer_->start(std::move(head));
}

void Exchange::write(std::string piece) {
  if (ended_) return;
  bytes_ += piece.size();
  answer_->write(std::move(piece));
}

void Exchange::finish() {
  if (ended_) return;
  answer_->finish();
  end(status_);
}

void Exchange::end_gone() {
  if (!ended_) end(499);
}

void Exchange::end(unsigned status) {
  ended_ = true;
  answer_.reset();
  log_.status = given_up() == GivenUp::gone ? 499 : status;
  log_.total = seconds();
  traffic_->end(this, route_, log_, started_, bytes_);
}

void Exchange::add_headers(HttpResponse& response) const {
  response.headers.push_back({"X-Request-Id", log_.id});
  if (cors_origin_.empty()) return;
  response.headers.push_back({"Access-Control-Allow-Origin", cors_origin_});
  response.headers.push_back({"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"});
  if (cors_origin_ != "*") response.headers.push_back({"Vary", "Origin"});
}

void Exchange::when_given_up(std::function<void(GivenUp)> then) {
  GivenUp why;
  {
    const std::lock_guard lock(mutex_);
    why = given_up_;
    if (why == GivenUp::no) then_ = std::move(then);
  }
  if (why != GivenUp::no) then(why);
}

GivenUp Exchange::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

void Exchange::give_up(GivenUp why) {
  std::function<void(GivenUp)> then;
  {
    const std::lock_guard lock(mutex_);
    if (given_up_ != GivenUp::no) return;
    given_up_ = why;
    then.swap(then_);
  }
  if (then) then(why);
}

}  // namespace heddle::server
