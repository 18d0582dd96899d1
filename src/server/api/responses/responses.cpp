// The handlers: a response is generated, kept, shown, deleted and cancelled.
#include "server/api/responses/responses.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "server/http/query.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

// Leaves out the oldest messages until the prompt leaves room for an answer. More messages have more tokens, so that
// the number is found by halving.
void truncate(const Call& call, ResponsesRequest& request) {
  const uint32_t context = call.model->context();
  const uint32_t room = std::min(request.generation.max_tokens.value_or(context / 8), context / 2);
  const auto fits = [&](const Ordered& messages) {
    request.conversation.messages = prompt_messages(request.instructions, messages);
    return render_chat(call, request, nullptr).tokens.size() + std::max(room, 1u) <= context;
  };
  if (fits(request.messages)) return;
  size_t low = 0, high = request.messages.size();  // low is too few; if high is, the prompt is refused
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (fits(without_oldest(request.messages, middle)) ? high : low) = middle;
  }
  const size_t all = request.messages.size();
  request.messages = without_oldest(request.messages, high);
  request.conversation.messages = prompt_messages(request.instructions, request.messages);
  call.exchange->add_header("X-Heddle-Truncated", fmt::format("messages={}", all - request.messages.size()));
}

// What the writer tells the store.
void keep_response(const Call& call, ResponsesRequest& request, ResponseWriter::Options& options) {
  const std::shared_ptr<ResponseStore> store = call.service.responses();
  options.on_begin = [store, id = options.id, events = options.events,
                      exchange = std::weak_ptr(call.exchange)](const std::string& json) {
    const auto cancel = [exchange] {
      if (const auto found = exchange.lock()) found->cancel(Cancelled::asked);
    };
    store->begin(id, json, cancel, events);
  };
  options.on_gone = [store, id = options.id] { store->end(id); };
  options.on_done = [store, messages = std::make_shared<Ordered>(std::move(request.messages)),
                     items = std::make_shared<std::vector<ResponseItem>>(std::move(request.input.items))](
                        StoredResponse stored, Ordered output) {
    for (Ordered& message : output) messages->push_back(std::move(message));
    stored.messages = messages->dump(-1, ' ', false, Ordered::error_handler_t::replace);
    stored.input = std::move(*items);
    store->add(std::move(stored));
  };
}

ResponsesRequest read_response_call(const Call& call) {
  const std::shared_ptr<ResponseStore> store = call.service.responses();
  ResponsesRequest request =
      call.read([&](std::string_view body, const RequestRules& rules) { return read_response(body, rules, *store); });
  call.expect_model(request.model);
  return request;
}

}  // namespace

void create_response(const Call& call) {
  PreparationTimer timer(*call.exchange);
  ResponsesRequest request = read_response_call(call);
  if (request.truncates) truncate(call, request);
  ResponseWriter::Options options{.id = random_id("resp_"),
                                  .created = unix_time(),
                                  .model = call.model->card().name,
                                  .stream = request.stream,
                                  .wraps_thoughts = request.wraps_thoughts};
  options.count_tokens = [model = call.model](std::string_view text) -> size_t {
    try {
      return model->tokenizer().encode(text, {.add_special = false, .parse_special = false}).size();
    } catch (const Error&) {  // the vocabulary has no token for it
      return 0;
    }
  };
  if (request.background) {
    const std::shared_ptr<ResponseStore> store = call.service.responses();
    if (store->keeps_nothing())
      throw ApiError(400, "unsupported_value", "background",
                     "background: this server keeps no responses (it was started with --store-mb 0)");
    options.events = store->make_log();
    call.exchange->outlive_client();
  }
  if (request.store) keep_response(call, request, options);
  generate_chat(call, request, timer, [&](const GenerationRequest& generation, const ChatReply& reply) {
    return std::make_unique<ResponseWriter>(*call.exchange, std::move(options), std::move(request.response), generation,
                                            reply);
  });
}

void count_response_tokens(const Call& call) {
  const ResponsesRequest request = read_response_call(call);
  const size_t tokens = render_chat(call, request, nullptr).tokens.size();
  call.exchange->send_json(fmt::format(R"({{"object":"response.input_tokens","input_tokens":{}}})", tokens));
}

namespace {

constexpr size_t default_page = 20, max_page = 100;  // items

ApiError no_response(const std::string& id) {
  return {404, "response_not_found", "id", "There is no response {} here: it was never stored, or is forgotten",
          in_quotes(id, 100)};
}

struct ResponsePath {
  std::string id, rest;  // "/v1/responses/ID/rest"
};
ResponsePath response_path(const Call& call) {
  const std::string path = call.exchange->request().path.substr(responses_path.size());
  const size_t slash = std::min(path.find('/'), path.size());
  return {path.substr(0, slash), path.substr(std::min(slash + 1, path.size()))};
}
ApiError no_such_path(const Call& call) {
  return {404, "unknown_url", "", "There is no {} here", in_quotes(call.exchange->request().path, 100)};
}

size_t read_page_size(const std::string& text) {
  size_t size = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), size);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || size < 1 || size > max_page)
    throw bad_field("limit", "limit: expected a whole number from 1 to {}, found {}", max_page, in_quotes(text, 40));
  return size;
}

void show_input_items(const Call& call, const StoredResponse& stored) {
  const std::string& query = call.exchange->request().query;
  const auto given = query_value(query, "limit");
  const size_t limit = given ? read_page_size(*given) : default_page;
  const std::string order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc")
    throw bad_field("order", "order: expected asc or desc, found {}", in_quotes(order, 40));
  std::vector<const ResponseItem*> items;
  for (const ResponseItem& item : stored.input) items.push_back(&item);
  if (order == "desc") std::ranges::reverse(items);
  size_t first = 0;
  if (const auto after = query_value(query, "after")) {
    const auto found = std::ranges::find(items, *after, [](const ResponseItem* item) { return item->id; });
    if (found == items.end())
      throw bad_field("after", "after: expected the id of an item, found {}", in_quotes(*after, 100));
    first = size_t(found - items.begin()) + 1;
  }
  const size_t end = std::min(items.size(), first + limit);
  Ordered page{{"object", "list"},
               {"data", Ordered::array()},
               {"first_id", first < end ? Ordered(items[first]->id) : Ordered()},
               {"last_id", first < end ? Ordered(items[end - 1]->id) : Ordered()},
               {"has_more", end < items.size()}};
  for (size_t i = first; i < end; ++i) page["data"].push_back(Ordered::parse(items[i]->json));
  call.exchange->send_json(page.dump());
}

// The events of a response in the background, from the beginning or after one of them.
void show_events(const Call& call, const std::string& id) {
  const std::shared_ptr<ResponseStore> store = call.service.responses();
  const std::shared_ptr<EventLog> events = store->events(id);
  if (!events && !store->in_progress(id) && !store->find(id)) throw no_response(id);
  if (!events)
    throw ApiError(400, "unsupported_parameter", "stream",
                   "stream: only a response with \"background\": true has its events kept; expected false, found true");
  std::optional<uint64_t> after;
  if (const auto given = query_value(call.exchange->request().query, "starting_after")) {
    uint64_t number = 0;
    const auto end = std::from_chars(given->data(), given->data() + given->size(), number);
    if (end.ec != std::errc() || end.ptr != given->data() + given->size() || number == UINT64_MAX)
      throw bad_field("starting_after", "starting_after: expected the number of an event, found {}",
                      in_quotes(*given, 40));
    after = number;
  }
  if (!events->attach(call.exchange, after))
    throw ApiError(400, "events_not_kept", "stream",
                   "stream: the events of this response were too long to be kept; ask for it without stream");
}

}  // namespace

void show_response(const Call& call) {
  const auto [id, rest] = response_path(call);
  const std::shared_ptr<ResponseStore> store = call.service.responses();
  if (rest != "" && rest != "input_items") throw no_such_path(call);
  if (rest.empty() && query_value(call.exchange->request().query, "stream") == "true") return show_events(call, id);
  if (const auto stored = store->find(id)) {
    if (rest == "input_items") return show_input_items(call, *stored);
    return call.exchange->send_json(stored->json);
  }
  auto now = rest.empty() ? store->in_progress(id) : std::nullopt;
  if (!now) throw no_response(id);
  call.exchange->send_json(std::move(*now));
}

void delete_response(const Call& call) {
  const auto [id, rest] = response_path(call);
  if (!rest.empty()) throw no_such_path(call);
  if (!call.service.responses()->erase(id)) throw no_response(id);
  call.exchange->send_json(Ordered{{"id", id}, {"object", "response"}, {"deleted", true}}.dump());
}

void cancel_response(const Call& call) {
  const auto [id, rest] = response_path(call);
  const std::shared_ptr<ResponseStore> store = call.service.responses();
  if (rest != "cancel") throw no_such_path(call);
  std::optional<std::string> now = store->in_progress(id);
  if (now && store->cancel(id)) {
    Ordered response = Ordered::parse(*now);
    response["status"] = "cancelled";
    return call.exchange->send_json(response.dump());
  }
  if (!store->find(id)) throw no_response(id);
  throw ApiError(400, "response_not_in_progress", "id", "The response {} has ended and cannot be cancelled", id);
}

}  // namespace heddle::server
