// A response that is recorded instead of sent.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/http/http.h"

namespace heddle::test {

// The response so far, of a client that may disconnect.
class Recorded {
 public:
  std::shared_ptr<server::Responder> responder() { return std::make_shared<Writer>(state_); }

  bool wait(std::function<bool()> until) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::chrono::seconds(20), until);
  }
  bool wait_for_end() const {
    return wait([&] { return state_->ended || state_->dropped; });
  }
  bool wait_for_parts(size_t count) const {
    return wait([&] { return state_->ended || state_->parts.size() >= count; });
  }
  void disconnect() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(state_->mutex);
      state_->gone = true;
      callback.swap(state_->on_disconnect);
    }
    if (callback) callback();
  }

  // After the end.
  const server::HttpResponse& response() const { return state_->response; }
  unsigned status() const { return state_->response.status; }
  bool streamed() const { return state_->streamed; }
  bool ended() const { return state_->ended; }
  std::string header(std::string_view name) const {
    for (const server::Header& header : state_->response.headers)
      if (header.name == name) return header.value;
    return {};
  }
  Json json() const { return parse_json(state_->response.body, "the response"); }
  std::string text() const {  // of a streamed response
    std::string all = state_->response.body;
    for (const std::string& part : state_->parts) all += part;
    return all;
  }
  // The events of a stream, without "data: "; a machine that is slow sends heartbeats between them.
  std::vector<std::string> events() const {
    std::vector<std::string> events;
    const std::string all = text();
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find("\n\n", at);
      const bool heartbeat = all.compare(at, 2, ": ") == 0;
      if (end == all.npos || (!heartbeat && all.compare(at, 6, "data: ") != 0)) {
        ADD_FAILURE() << "not an event: " << all.substr(at);
        break;
      }
      if (!heartbeat) events.push_back(all.substr(at + 6, end - at - 6));
      at = end + 2;
    }
    return events;
  }
  std::vector<Json> chunks() const {  // without "[DONE]", which must come last
    std::vector<std::string> all = events();
    if (all.empty() || all.back() != "[DONE]")
      ADD_FAILURE() << "expected [DONE] at the end of: " << text();
    else
      all.pop_back();
    std::vector<Json> chunks;
    for (const std::string& event : all) chunks.push_back(parse_json(event, "a chunk"));
    return chunks;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    server::HttpResponse response;
    std::vector<std::string> parts;
    bool streamed = false, ended = false, dropped = false, gone = false;
    std::function<void()> on_disconnect;
  };
  class Writer : public server::Responder {
   public:
    explicit Writer(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~Writer() override {
      change([&] { state_->dropped = true; });
    }
    void send(server::HttpResponse response) override {
      change([&] {
        EXPECT_FALSE(state_->streamed || state_->ended) << "two responses";
        state_->response = std::move(response);
        state_->ended = true;
      });
    }
    void start(server::HttpResponse head) override {
      change([&] {
        EXPECT_FALSE(state_->streamed || state_->ended) << "two responses";
        state_->response = std::move(head);
        state_->streamed = true;
      });
    }
    void write(std::string part) override {
      change([&] {
        EXPECT_TRUE(state_->streamed && !state_->ended) << "not within a stream: " << part;
        if (!state_->gone) state_->parts.push_back(std::move(part));
      });
    }
    void finish() override {
      change([&] {
        EXPECT_TRUE(state_->streamed && !state_->ended);
        state_->ended = true;
      });
    }
    void on_disconnect(std::function<void()> callback) override {
      {
        const std::lock_guard lock(state_->mutex);
        if (!state_->gone) {
          state_->on_disconnect = std::move(callback);
          return;
        }
      }
      callback();
    }

   private:
    template <class Change>
    void change(Change&& how) {
      const std::lock_guard lock(state_->mutex);
      how();
      state_->changed.notify_all();
    }
    std::shared_ptr<State> state_;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace heddle::test
