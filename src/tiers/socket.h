// A TCP connection that sends and receives whole pieces, each within a time.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace heddle::tiers {

class Socket {
 public:
  explicit Socket(int number = -1) : number_(number) {}
  ~Socket();
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  // An Error names the address and the reason.
  static Socket connect(const std::string& host, uint16_t port);
  static Socket listen(const std::string& host, uint16_t port);
  uint16_t port() const;  // its own

  // The next connection; a closed one if none came within a time, in milliseconds.
  Socket accept(int milliseconds) const;
  explicit operator bool() const { return number_ >= 0; }

  // Throw an Error if the other end is gone, or does not go on for ten seconds.
  void send(std::span<const uint8_t> bytes);
  void receive(std::span<uint8_t> to);

 private:
  int number_;
};

}  // namespace heddle::tiers
