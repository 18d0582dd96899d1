#include "server/events/event_publisher.h"

#include <array>
#include <chrono>

#include "base/error.h"

namespace heddle::server {
namespace {

constexpr int pause = 10;            // milliseconds between two batches: routers need not know earlier
constexpr int linger = 200;          // milliseconds for the last batch when the server ends
constexpr int high_water = 100'000;  // batches that wait for a subscriber
constexpr int max_request = 64;      // bytes of a frame of a request for a replay

using Number = std::array<uint8_t, 8>;

Number number_frame(uint64_t number) {
  Number bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(number >> (56 - 8 * i));
  return bytes;
}

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

bool listens_on(const std::string& endpoint) {
  const auto has = [&](const char* part) { return endpoint.find(part) != endpoint.npos; };
  return has("*") || has("::") || has("://0.0.0.0") || endpoint.starts_with("ipc://") ||
         endpoint.starts_with("inproc://");
}

EventPublisher::EventPublisher(EventOptions options)
    : options_(std::move(options)), events_(context_, ZMQ_PUB), replay_(context_, ZMQ_ROUTER) {
  events_.set(ZMQ_LINGER, linger);
  replay_.set(ZMQ_LINGER, 0);
  events_.set(ZMQ_SNDHWM, high_water);
  replay_.set(ZMQ_SNDHWM, int(options_.max_batches + 1));  // one whole replay for each client
  replay_.set(ZMQ_MAXMSGSIZE, int64_t(max_request));
  events_.set(ZMQ_IPV6, 1);
  replay_.set(ZMQ_IPV6, 1);
  if (listens_on(options_.endpoint))
    events_.bind(options_.endpoint);
  else
    events_.connect(options_.endpoint);
  endpoint_ = events_.endpoint();
  if (!options_.replay.empty()) {
    replay_.bind(options_.replay);
    replay_endpoint_ = replay_.endpoint();
  }
  thread_ = std::thread([this] { run(); });
}

EventPublisher::~EventPublisher() {
  ends_ = true;
  thread_.join();
}

void EventPublisher::run() {
  for (bool last = false; !last;) {
    last = ends_;
    try {
      if (!last && replay_.readable(pause)) answer_replay();
      publish();
    } catch (const Error& error) {
      if (options_.warn) options_.warn(fmt::format("warning: KV events: {}", error.what()));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

void EventPublisher::publish() {
  const BlockChanges::Taken taken = changes_.take();
  if (taken.lost && options_.warn)
    options_.warn(
        fmt::format("warning: KV events: {} changes of blocks were lost, because the publisher was too slow: "
                    "routers are told that the cache is empty",
                    taken.lost));
  std::vector<BlockEvent> events = index_.apply(taken);
  if (events.empty()) return;
  std::vector<uint8_t> bytes = pack({seconds_since_1970(), std::move(events)}, options_.format);
  const Number number = number_frame(next_);
  const std::array<std::span<const uint8_t>, 3> frames{bytes_of(options_.topic), number, bytes};
  events_.send(frames);
  if (options_.replay.empty()) {
    ++next_;
    return;
  }
  sent_bytes_ += bytes.size();
  sent_.push_back({next_++, std::move(bytes)});
  while (sent_.size() > options_.max_batches || (sent_bytes_ > options_.max_bytes && sent_.size() > 1)) {
    sent_bytes_ -= sent_.front().bytes.size();
    sent_.pop_front();
  }
}

void EventPublisher::answer_replay() {
  const std::vector<ZmqSocket::Frame> request = replay_.receive(max_request);
  if (request.size() != 3 || !request[1].empty() || request[2].size() != sizeof(Number)) {
    if (options_.warn && !request.empty())
      options_.warn(
          "warning: KV events: expected the number of a batch in 8 bytes from a client of the replay, found "
          "something else");
    return;
  }
  uint64_t first = 0;
  for (const uint8_t byte : request[2]) first = first << 8 | byte;
  const auto respond = [&](uint64_t number, std::span<const uint8_t> bytes) {
    const Number frame = number_frame(number);
    const std::array<std::span<const uint8_t>, 4> frames{request[0], request[1], frame, bytes};
    return replay_.send(frames);
  };
  for (const Sent& batch : sent_)
    if (batch.number >= first && !respond(batch.number, batch.bytes)) return;
  respond(~uint64_t(0), {});
}

}  // namespace heddle::server
