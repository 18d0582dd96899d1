// Responses that clients may ask for again, continue or refer to. They are kept in memory within limits: the oldest are
// forgotten first.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/api/responses/event_log.h"

namespace heddle::server {

// What goes into a model or comes out of it: a message, a thought, a call, the result of a call.
struct ResponseItem {
  std::string id, json;  // json has the id as well
};

struct StoredResponse {
  std::string id;
  std::string json;                         // the response itself
  std::vector<ResponseItem> input, output;  // input: of this request alone
  std::string messages;  // JSON, a list as chats have it: the whole conversation with the output, without instructions
  std::shared_ptr<EventLog> events = nullptr;  // of one that was generated in the background
  size_t event_bytes = 0;                      // of these
  size_t bytes() const;
};

// For any thread.
class ResponseStore {
 public:
  struct Limits {
    size_t responses = 10'000;
    size_t bytes = size_t(64) << 20;  // 0: nothing is kept
  };
  explicit ResponseStore(Limits limits)
      : limits_(limits), event_budget_(std::make_shared<EventLog::Budget>(limits.bytes)) {}

  bool keeps_nothing() const { return limits_.bytes == 0 || limits_.responses == 0; }
  // For a response in the background. The logs of those in progress may take as much as stored responses may.
  std::shared_ptr<EventLog> make_log() const { return std::make_shared<EventLog>(event_budget_); }

  // Of a response that is being generated. `json`: as it is now. `cancel`: stops it. `events`: in the background.
  void begin(const std::string& id, std::string json, std::function<void()> cancel,
             std::shared_ptr<EventLog> events = nullptr);
  void end(const std::string& id);  // it is no longer being generated
  std::optional<std::string> in_progress(const std::string& id) const;
  std::shared_ptr<EventLog> events(const std::string& id) const;  // in progress or stored; null: none in the background
  bool cancel(const std::string& id);                             // false: it is not being generated

  void add(StoredResponse response);  // one that is larger than the limit is not kept
  std::shared_ptr<const StoredResponse> find(const std::string& id) const;  // null: there is none
  bool erase(const std::string& id);
  std::optional<std::string> item(const std::string& id) const;  // the JSON of an item of any response

  size_t bytes() const;

 private:
  using Order = std::list<std::shared_ptr<const StoredResponse>>;
  void forget(Order::iterator place);

  const Limits limits_;
  const std::shared_ptr<EventLog::Budget> event_budget_;
  mutable std::mutex mutex_;  // guards the members below
  Order order_;               // the oldest first
  std::unordered_map<std::string, Order::iterator> places_;
  struct ItemPlace {
    const StoredResponse* response;
    const ResponseItem* item;
  };
  std::unordered_map<std::string, ItemPlace> items_;  // of two with one id, the newer
  size_t bytes_ = 0;
  struct InProgress {
    std::string json;
    std::function<void()> cancel;
    std::shared_ptr<EventLog> events;
  };
  std::map<std::string, InProgress> in_progress_;
};

}  // namespace heddle::server
