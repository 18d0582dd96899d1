// The events of a response that is generated in the background, for clients that come back for them: those so far are
// kept, and those to come are sent to every client that reads along.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::server {

class Exchange;

// For any thread. Event i has the sequence number i.
class EventLog {
 public:
  // What all logs of responses in progress may take together.
  struct Budget {
    explicit Budget(size_t max_bytes) : limit(max_bytes) {}
    const size_t limit;  // bytes
    std::atomic<size_t> used = 0;
  };
  explicit EventLog(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~EventLog() { finish(); }

  // If it does not fit into the budget, this log forgets its events; readers still get those to come.
  void append(std::string_view event);
  void finish();  // none follows; the budget no longer counts this log
  // Begins the stream of `reader`: events after number `after`, by default all, and those to come. False: they were
  // forgotten, and nothing is sent.
  bool attach(std::shared_ptr<Exchange> reader, std::optional<uint64_t> after);

  size_t bytes() const;
  bool is_whole() const;  // nothing was forgotten

 private:
  size_t size() const { return text_.size() + begins_.size() * sizeof(size_t); }
  void forget();
  void drop_gone();

  const std::shared_ptr<Budget> budget_;
  mutable std::mutex mutex_;    // guards the members below
  std::string text_;            // of all events
  std::vector<size_t> begins_;  // of each event in the text
  bool forgotten_ = false, finished_ = false;
  std::vector<std::shared_ptr<Exchange>> readers_;
};

}  // namespace heddle::server
