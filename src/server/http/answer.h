// An answer between whoever makes it, on any thread, and the connection it goes out on.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "server/http/http.h"
#include "server/http/reader.h"

namespace heddle::server {

// A connection as answers see it.
class Line {
 public:
  virtual void wake() = 0;  // there is something to take; from any thread, does not wait

 protected:
  ~Line() = default;
};

// Pieces are framed where they are made and put one behind the other: what comes while the connection is busy goes out
// in one write.
class Outbox {
 public:
  // `most_unsent`: bytes that may wait, beyond which it is cut off.
  Outbox(Line& line, const RequestReader::Manners& manners, size_t most_unsent)
      : line_(&line), manners_(manners), most_unsent_(most_unsent) {}

  // What Answer says.
  void send(HttpResponse response);
  void start(HttpResponse head);
  void write(std::string piece);
  void finish();
  void when_gone(std::function<void()> gone);
  void drop();  // nobody answers any more
  // Whoever should answer has failed: `instead` goes out if nothing has, otherwise this is cut off. What the one who
  // failed does later does nothing.
  void fail(HttpResponse instead);

  // The connection's side.
  struct Taken {
    bool ended = false;
    bool keep_alive = true;
  };
  bool is_cut();                   // the client is to be left
  Taken take(std::string& bytes);  // what waits, in place of what was there
  void sent(size_t bytes);         // of what was taken
  void close_after();              // the client is told so, if its header is not made yet
  // "100 Continue", or later something else that a client overlooks: one that has closed its end refuses it, one that
  // only has no more to say does not. Nothing where HTTP has no such thing.
  void probe();
  void disconnect();  // the client has gone; from now on nobody is woken

 private:
  enum class Phase { fresh, streaming, ended };
  bool over() const { return !line_ || cut_ || failed_; }  // nothing more is wanted
  void begin(const HttpResponse& response, bool whole);
  void whole(const HttpResponse& response);
  void add_chunk(std::string_view piece);
  void wake();
  void cut();

  std::mutex mutex_;
  Line* line_;  // null: the client has gone
  RequestReader::Manners manners_;
  const size_t most_unsent_;
  Phase phase_ = Phase::fresh;
  bool cut_ = false, failed_ = false, awake_ = false;
  std::string waits_;
  size_t taken_ = 0;  // bytes taken that are not sent yet
  std::function<void()> gone_;
};

std::shared_ptr<Answer> answer_of(std::shared_ptr<Outbox> outbox);

}  // namespace heddle::server
