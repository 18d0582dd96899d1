// Publishes events of blocks over ZeroMQ, as vLLM does: a PUB socket sends messages of three frames, topic, number (8
// bytes, big-endian) and batch. A ROUTER socket sends batches again: the request is the number of the first, the
// responses are number and batch, and at the end the number -1 with an empty batch.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "server/events/block_events.h"
#include "server/events/event_wire.h"
#include "server/events/zmq.h"

namespace heddle::server {

struct EventOptions {
  std::string endpoint;  // see listens_on()
  std::string topic;
  std::string replay;  // where batches can be asked for again; empty: nowhere
  EventFormat format = EventFormat::map;
  size_t max_batches = 10'000, max_bytes = size_t(64) << 20;  // that are kept for replay
  std::function<void(std::string)> warn = {};                 // takes a line; from the publisher's thread
};

// Whether the endpoint is one to listen on ("tcp://*:5557", "ipc://..."), rather than one to connect to
// ("tcp://router:5557").
bool listens_on(const std::string& endpoint);

class EventPublisher {
 public:
  explicit EventPublisher(EventOptions options);  // throws an Error if an endpoint cannot be used
  ~EventPublisher();                              // publishes what was observed until now
  EventPublisher(const EventPublisher&) = delete;
  EventPublisher& operator=(const EventPublisher&) = delete;

  engine::KvObserver& observer() { return changes_; }
  // Where it listens, with the ports that were chosen.
  std::string endpoint() const { return endpoint_; }
  std::string replay_endpoint() const { return replay_endpoint_; }

 private:
  void run();
  void publish();
  void answer_replay();

  const EventOptions options_;
  BlockChanges changes_;
  ZmqContext context_;
  ZmqSocket events_, replay_;
  std::string endpoint_, replay_endpoint_;

  // of the thread
  BlockIndex index_;
  uint64_t next_ = 0;  // number of a batch
  struct Sent {
    uint64_t number;
    std::vector<uint8_t> bytes;
  };
  std::deque<Sent> sent_;
  size_t sent_bytes_ = 0;

  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace heddle::server
