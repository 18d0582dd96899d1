// A message is its length in 4 bytes, its kind in 1, and its payload.
#include "ranks/link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/clock.h"
#include "base/error.h"

namespace heddle::ranks {
namespace {

constexpr uint32_t max_message = 256 << 20;
constexpr size_t message_head = 5;  // bytes

}  // namespace

Link::Link(int socket) : socket_(socket) { ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK); }
Link::~Link() { ::close(socket_); }

void Link::send(Message::Kind kind, std::span<const uint8_t> payload, double seconds) {
  const std::lock_guard lock(mutex_);
  write(kind, payload, seconds);
}

void Link::ping() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) write(Message::Kind::ping, {}, 1);
}

void Link::write(Message::Kind kind, std::span<const uint8_t> payload, double seconds) {
  check(payload.size() < max_message, "a message of a bounded length");
  Bytes bytes;
  bytes.reserve(message_head + payload.size());
  ByteWriter writer(bytes);
  writer.raw(uint32_t(payload.size()));
  writer.raw(uint8_t(kind));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  const auto start = Clock::now();
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count >= 0) {
      sent += size_t(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) throw Error("the connection is lost: {}", std::strerror(errno));
    if (seconds_since(start) > seconds) throw Error("a message was not taken within {} s", seconds);
    pollfd wait{.fd = socket_, .events = POLLOUT, .revents = 0};
    ::poll(&wait, 1, 50);
  }
}

bool Link::receive(std::vector<Message>& messages) {
  bool open = true;
  std::move(kept_.begin(), kept_.end(), std::back_inserter(messages));
  kept_.clear();
  for (uint8_t buffer[1 << 16];;) {
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count > 0) received_.insert(received_.end(), buffer, buffer + count);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || (count < 0 && errno != EAGAIN)) open = false;
    if (count < ssize_t(sizeof buffer)) break;
  }
  size_t at = 0;
  while (received_.size() - at >= message_head) {
    ByteReader head({received_.data() + at, message_head});
    const uint32_t length = head.raw<uint32_t>();
    const uint8_t kind = head.raw<uint8_t>();
    if (length >= max_message || kind > uint8_t(Message::Kind::end))
      throw Error("expected a message of heddle, found other bytes");
    if (received_.size() - at - message_head < length) break;
    const uint8_t* payload = received_.data() + at + message_head;
    messages.push_back({Message::Kind(kind), {payload, payload + length}});
    at += message_head + length;
  }
  received_.erase(received_.begin(), received_.begin() + ptrdiff_t(at));
  return open;
}

Message Link::wait_for_one(double seconds) {
  const auto start = Clock::now();
  std::vector<Message> messages;
  while (messages.empty()) {
    const double left = seconds - seconds_since(start);
    if (left <= 0) throw Error("no message within {} s", seconds);
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, int(std::min(left, 1.0) * 1000) + 1);
    if (!wait.revents) continue;
    if (!receive(messages) && messages.empty()) throw Error("the connection was closed");
    std::erase_if(messages, [](const Message& message) { return message.kind == Message::Kind::ping; });
  }
  Message first = std::move(messages.front());
  kept_.assign(std::make_move_iterator(messages.begin() + 1), std::make_move_iterator(messages.end()));
  return first;
}

}  // namespace heddle::ranks
