// One HTTP request under way: its answer, and all that is to be said of it at its end.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "server/api/api_error.h"
#include "server/http/http.h"
#include "server/status/request_log.h"
#include "server/status/traffic.h"

namespace heddle::server {

// Why work is given up that nothing is wrong with.
enum class GivenUp { no, gone, shutdown };  // gone: the client

// Answered once, by one thread at a time; gone() and cancel() may come from any at any time.
class Exchange {
 public:
  static std::shared_ptr<Exchange> open(std::shared_ptr<Traffic> traffic, HttpRequest request,
                                        std::shared_ptr<Answer> answer, std::string cors_origin);
  ~Exchange();  // one that was not answered is cut off

  const HttpRequest& request() const { return request_; }
  void forget_body() { request_.body = {}; }  // it is read, and may be large
  const std::string& id() const { return log_.id; }
  double seconds() const { return seconds_since(start_); }  // since it came
  bool logs_prompts() const { return traffic_->logs_prompts(); }
  LogEntry& log() { return log_; }
  void set_route(std::string route) { route_ = std::move(route); }

  void send(HttpResponse response);
  void send_json(std::string body) { send({.body = std::move(body)}); }
  // With its status (and `more` headers), or as the last event of a stream that has begun.
  void fail(const ApiError& error, std::vector<Header> more = {});
  void start(HttpResponse head);
  void write(std::string piece);
  void finish();
  void end_gone();  // the work for a client that has gone is over
  bool started() const { return started_; }

  // What is to be done when nobody waits for the answer any more; at once if that is so.
  void when_given_up(std::function<void(GivenUp)> then);
  GivenUp given_up() const;
  void gone() { give_up(GivenUp::gone); }
  void cancel() { give_up(GivenUp::shutdown); }

 private:
  Exchange(std::shared_ptr<Traffic> traffic, HttpRequest request, std::shared_ptr<Answer> answer,
           std::string cors_origin);
  void give_up(GivenUp why);
  void add_headers(HttpResponse& response) const;
  void end(unsigned status);

  const std::shared_ptr<Traffic> traffic_;
  const std::string cors_origin_;
  HttpRequest request_;
  std::shared_ptr<Answer> answer_;
  const Clock::time_point start_ = Clock::now();
  LogEntry log_;
  std::string route_ = "other";
  uint64_t bytes_ = 0;
  unsigned status_ = 200;
  bool started_ = false, ended_ = false;

  mutable std::mutex mutex_;  // of what follows
  GivenUp given_up_ = GivenUp::no;
  std::function<void(GivenUp)> then_;
};

}  // namespace heddle::server
