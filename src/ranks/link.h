// A connection between two ranks, with whole messages.
#pragma once
#include <mutex>
#include <span>
#include <vector>

#include "ranks/bytes.h"

namespace heddle::ranks {

struct Message {
  enum class Kind : uint8_t {
    ping,     // a sign of life
    hello,    // of a rank that joins
    welcome,  // the leader's answer
    refused,  // the same, with the reason
    offer,    // numbers of a rank
    agreed,   // the smallest of all ranks
    batch,
    allow,
    copy_block,
    copy_window_block,
    copy_state,
    read_kv,   // of places of the cache into memory that has numbers
    write_kv,  // from there to a place
    drop_kv,   // numbers that have no memory any more
    question,  // beside the batches, with a number
    answer,    // to the question of that number
    failed,    // the sender cannot go on, with the reason
    end,       // the work is done
  };
  Kind kind;
  Bytes payload = {};

  std::string text() const { return {payload.begin(), payload.end()}; }
};
inline std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// One thread receives; any may send.
class Link {
 public:
  explicit Link(int socket);  // a connected stream, which it owns from now on
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int socket() const { return socket_; }
  // Throws an Error if the other side has not taken it within this time, or is gone.
  void send(Message::Kind kind, std::span<const uint8_t> payload, double seconds);
  void ping();  // unless something is being sent anyway
  // Adds the messages that are complete. False: the other side has closed the connection. Throws an Error for bytes
  // that are no message.
  bool receive(std::vector<Message>& messages);
  // Waits for one message, while none is received otherwise; receive() gives what came with it. Throws an Error where
  // none comes within this time.
  Message wait_for_one(double seconds);

 private:
  void write(Message::Kind kind, std::span<const uint8_t> payload, double seconds);

  const int socket_;
  std::mutex mutex_;
  Bytes received_;             // of a message that is not complete yet
  std::vector<Message> kept_;  // that came with one that was waited for
};

}  // namespace heddle::ranks
