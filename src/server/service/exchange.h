// One HTTP request and its response, from its arrival to the line in the log.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "server/api/api_error.h"
#include "server/http/http.h"
#include "server/status/status.h"

namespace heddle::server {

struct Route;

// Why work is cancelled although nothing has failed.
enum class Cancelled { no, client_gone, shutdown, asked };  // asked: by another request

// Responded to once, by one thread at a time; cancel() may come from any thread at any time.
class Exchange {
 public:
  static std::shared_ptr<Exchange> open(std::shared_ptr<Traffic> traffic, HttpRequest request,
                                        std::shared_ptr<Responder> responder, std::string cors_origin);
  ~Exchange();  // without a response the connection is closed

  const HttpRequest& request() const { return request_; }
  void free_body() { request_.body = {}; }  // it has been parsed, and may be large
  void expand_body(size_t max_bytes);       // by its Content-Encoding; see decode_body()
  const std::string& id() const { return log_.id; }
  // Who has sent the request, for the engine's fairness: the address, unless the service knows it by its key.
  uint64_t client() const { return client_; }
  void set_client(uint64_t client) { client_ = client; }
  double seconds() const { return seconds_since(start_); }  // since the request arrived
  bool logs_prompts() const { return traffic_->logs_prompts(); }
  LogEntry& log() { return log_; }
  void set_route(const Route& route);  // from now on errors have the form of its protocol
  void set_error_body(ErrorBody body) { error_body_ = body; }

  void send(HttpResponse response);
  void send_json(std::string body) { send({.body = std::move(body)}); }
  // The response to a client that does not wait for the end of the work; finish() ends that later. Nothing that is
  // written in between is sent.
  void send_early(HttpResponse response);
  void fail(const ApiError& error, std::vector<Header> headers = {});  // a stream that has begun ends

  void add_header(std::string name, std::string value);    // to the response
  void start_events(std::string first);                    // a response of server-sent events; `first` may be empty
  void start_stream(std::string type, std::string first);  // one of this content type
  void write(std::string text);
  // If nothing was written to a stream of events for this time: a comment, so that proxies and the client do not
  // give it up. From any thread, at any time.
  void beat(double seconds);
  void finish();
  void fail_stream(const ApiError& error, std::string last);  // `last`: what is written before the stream ends
  bool started() const { return started_; }

  // `callback` is called once, when the response is no longer wanted; at once if it was cancelled before.
  void on_cancel(std::function<void()> callback);
  void cancel(Cancelled why);
  void outlive_client();  // from now on the work goes on when the client disconnects
  Cancelled cancelled() const;
  void end_cancelled();  // the work for a disconnected client has ended

 private:
  Exchange(std::shared_ptr<Traffic> traffic, HttpRequest request, std::shared_ptr<Responder> responder,
           std::string cors_origin);
  void add_headers(HttpResponse& response) const;
  void end(unsigned status);
  void end_beats();

  const std::shared_ptr<Traffic> traffic_;
  const std::string cors_origin_;
  HttpRequest request_;
  std::shared_ptr<Responder> responder_;  // null: the response is complete
  const Clock::time_point start_ = Clock::now();
  LogEntry log_;
  uint64_t client_;
  std::string path_ = "other";  // of the route, for the metrics
  ErrorBody error_body_ = openai_error;
  std::vector<Header> headers_;  // of the response, besides those that all have
  uint64_t bytes_ = 0;           // of the response's body
  unsigned status_ = 200;
  bool started_ = false, ended_ = false;

  std::mutex stream_mutex_;  // guards the responder while a stream beats, and the next two members
  bool beats_ = false;
  Clock::time_point wrote_;

  mutable std::mutex mutex_;  // guards the members below
  Cancelled cancelled_ = Cancelled::no;
  bool outlives_client_ = false;
  std::function<void()> on_cancel_;
};

std::string random_id(std::string_view prefix);  // the prefix and 24 random hex digits

// A number for the host of a peer, "127.0.0.1:51234" or "[::1]:51234". An IPv6 network of 64 bits is one client, which
// has as many addresses as it wants.
uint64_t client_at(std::string_view peer);

}  // namespace heddle::server
