// An exchange sends to all ranks and receives from all at the same time, so that no two wait for each other.
#include "ranks/tcp.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/clock.h"
#include "ranks/sums.h"

namespace heddle::ranks {
namespace {

class Tcp : public model::Collective {
 public:
  Tcp(std::vector<int> sockets, uint32_t rank, Alarm& alarm, const Patience& patience, uint32_t first)
      : first_(first),
        rank_(rank),
        sockets_(std::move(sockets)),
        alarm_(alarm),
        patience_(patience),
        legs_(sockets_.size()) {
    check(rank < sockets_.size() && sockets_[rank] == -1, "a connection to every other rank");
    for (const int socket : sockets_)
      if (socket >= 0) ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
  }
  ~Tcp() override {
    for (const int socket : sockets_)
      if (socket >= 0) ::close(socket);
  }
  Tcp(const Tcp&) = delete;
  Tcp& operator=(const Tcp&) = delete;

  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return uint32_t(sockets_.size()); }

  void sum(std::span<float> values) override {
    if (ranks() == 1 || values.empty()) return;
    if (values.size() <= one_shot_values) {
      received_.resize(values.size() * ranks());
      for (uint32_t rank = 0; rank < ranks(); ++rank) legs_[rank] = {values, place(rank, values.size())};
      exchange(patience_.collective);
      own_.assign(values.begin(), values.end());
      add_in_order(values, ranks(),
                   [&](uint32_t rank) { return rank == rank_ ? own_.data() : place(rank, values.size()).data(); });
      return;
    }
    const auto [first, count] = slice_of(values.size(), rank_, ranks());
    received_.resize(count * ranks());
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const ValueRange slice = slice_of(values.size(), rank, ranks());
      legs_[rank] = {values.subspan(slice.first, slice.count), place(rank, count)};
    }
    exchange(patience_.collective);
    own_.assign(values.begin() + ptrdiff_t(first), values.begin() + ptrdiff_t(first + count));
    const std::span<float> sum = values.subspan(first, count);
    add_in_order(sum, ranks(),
                 [&, count = count](uint32_t rank) { return rank == rank_ ? own_.data() : place(rank, count).data(); });
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const ValueRange slice = slice_of(values.size(), rank, ranks());
      legs_[rank] = {sum, values.subspan(slice.first, slice.count)};
    }
    exchange(patience_.collective);
  }

  void gather(std::span<const float> part, std::span<const uint64_t> sizes, std::span<float> all) override {
    check(sizes.size() == ranks() && part.size() == sizes[rank_], "a size for every rank");
    uint64_t at = 0;
    for (uint32_t rank = 0; rank < ranks(); at += sizes[rank++]) {
      if (rank == rank_) std::copy(part.begin(), part.end(), all.begin() + ptrdiff_t(at));
      legs_[rank] = {part, all.subspan(at, sizes[rank])};
    }
    exchange(patience_.collective);
  }

  void send(uint32_t to, std::span<const float> values) override {
    check(to < ranks() && to != rank_, "another rank of the group");
    clear_legs();
    legs_[to].out = values;
    exchange(patience_.pipeline);
  }
  void receive(uint32_t from, std::span<float> values) override {
    check(from < ranks() && from != rank_, "another rank of the group");
    clear_legs();
    legs_[from].in = values;
    exchange(patience_.pipeline);
  }

 private:
  // What goes to a rank and comes from it.
  struct Leg {
    std::span<const float> out;
    std::span<float> in;
  };
  struct Progress {
    size_t sent = 0, received = 0;  // bytes
  };
  std::span<float> place(uint32_t rank, size_t count) { return std::span(received_).subspan(rank * count, count); }
  void clear_legs() {
    for (Leg& leg : legs_) leg = {};
  }

  void exchange(double seconds) {
    alarm_.expect_quiet();
    const auto start = Clock::now();
    progress_.assign(legs_.size(), {});
    for (;;) {
      polls_.clear();
      of_poll_.clear();
      for (uint32_t rank = 0; rank < ranks(); ++rank) {
        if (rank == rank_) continue;
        step(rank);
        const short events = short((waits_to_send(rank) ? POLLOUT : 0) | (waits_to_receive(rank) ? POLLIN : 0));
        if (!events) continue;
        polls_.push_back({.fd = sockets_[rank], .events = events, .revents = 0});
        of_poll_.push_back(rank);
      }
      if (polls_.empty()) return;
      ::poll(polls_.data(), polls_.size(), 50);
      alarm_.expect_quiet();
      if (seconds_since(start) < seconds) continue;
      alarm_.raise(fmt::format("rank {} is late: rank {} has waited {} s for it", first_ + of_poll_[0], first_ + rank_,
                               seconds));
      alarm_.expect_quiet();
    }
  }
  bool waits_to_send(uint32_t rank) const { return progress_[rank].sent < legs_[rank].out.size_bytes(); }
  bool waits_to_receive(uint32_t rank) const { return progress_[rank].received < legs_[rank].in.size_bytes(); }

  // Sends and receives as much as goes without waiting.
  void step(uint32_t rank) {
    Progress& progress = progress_[rank];
    const Leg& leg = legs_[rank];
    while (waits_to_send(rank)) {
      const ssize_t count = ::send(sockets_[rank], reinterpret_cast<const uint8_t*>(leg.out.data()) + progress.sent,
                                   leg.out.size_bytes() - progress.sent, MSG_NOSIGNAL);
      if (count > 0)
        progress.sent += size_t(count);
      else if (errno != EINTR)
        break;
    }
    if (waits_to_send(rank) && errno != EAGAIN) lose(rank, std::strerror(errno));
    while (waits_to_receive(rank)) {
      const ssize_t count = ::recv(sockets_[rank], reinterpret_cast<uint8_t*>(leg.in.data()) + progress.received,
                                   leg.in.size_bytes() - progress.received, 0);
      if (count > 0)
        progress.received += size_t(count);
      else if (count == 0)
        lose(rank, "its connection was closed");
      else if (errno == EAGAIN)
        break;
      else if (errno != EINTR)
        lose(rank, std::strerror(errno));
    }
  }
  void lose(uint32_t rank, const char* why) {
    alarm_.raise(fmt::format("rank {} is gone: {}", first_ + rank, why));
    alarm_.expect_quiet();
  }

  const uint32_t first_;  // of these ranks in the group
  const uint32_t rank_;   // among these
  const std::vector<int> sockets_;
  Alarm& alarm_;
  const Patience patience_;
  std::vector<Leg> legs_;
  std::vector<Progress> progress_;
  std::vector<pollfd> polls_;
  std::vector<uint32_t> of_poll_;      // ranks of polls_
  std::vector<float> received_, own_;  // of a sum: (ranks, values), and this rank's values
};

}  // namespace

std::unique_ptr<model::Collective> make_tcp(std::vector<int> sockets, uint32_t rank, Alarm& alarm,
                                            const Patience& patience, uint32_t first) {
  return std::make_unique<Tcp>(std::move(sockets), rank, alarm, patience, first);
}

}  // namespace heddle::ranks
