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
  size_t bytes() const;
};

// For any thread.
class ResponseStore {
 public:
  struct Limits {
    size_t responses = 10'000;
    size_t bytes = size_t(64) << 20;  // 0: nothing is kept
  };
  explicit ResponseStore(Limits limits) : limits_(limits) {}

  // Of a response that is being generated. `json`: as it is now. `cancel`: stops it.
  void begin(const std::string& id, std::string json, std::function<void()> cancel);
  void end(const std::string& id);  // it is no longer being generated
  std::optional<std::string> in_progress(const std::string& id) const;
  bool cancel(const std::string& id);  // false: it is not being generated

  void add(StoredResponse response);  // one that is larger than the limit is not kept
  std::shared_ptr<const StoredResponse> find(const std::string& id) const;  // null: there is none
  bool erase(const std::string& id);
  std::optional<std::string> item(const std::string& id) const;  // the JSON of an item of any response

  size_t bytes() const;

 private:
  using Order = std::list<std::shared_ptr<const StoredResponse>>;
  void forget(Order::iterator place);

  const Limits limits_;
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
  };
  std::map<std::string, InProgress> in_progress_;
};

}  // namespace heddle::server
