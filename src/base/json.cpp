// A document built from nlohmann's events, so that depth and repeated keys are seen while they are read.
#include "base/json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {
namespace {

class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view where, size_t max_depth) : where_(where), max_depth_(max_depth) {}
  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    auto [place, is_new] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    if (!is_new) throw Error("{}: the key {} is there twice in one object", where_, in_quotes(name));
    member_ = &place->second;
    return true;
  }
  bool parse_error(size_t at, const std::string& token, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...; last read: '...'": the
    // middle of it, because the text that was read last may be long
    std::string_view reason = error.what();
    if (const size_t begin = reason.find(": "); begin != reason.npos) reason.remove_prefix(begin + 2);
    reason = reason.substr(0, reason.find("; last read"));
    throw Error("{}: no valid JSON at byte {}, near {}: {}", where_, at, in_quotes(token, 40),
                replace_invalid_utf8(reason.substr(0, 200)));
  }

 private:
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &(*member_ = std::move(value));
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == max_depth_) throw Error("{}: nested deeper than {} levels", where_, max_depth_);
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where_;
  size_t max_depth_;
  Json root_;
  std::vector<Json*> open_;  // the objects and arrays around what comes next
  Json* member_ = nullptr;   // of the innermost object, named by the last key
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where, size_t max_depth) {
  Builder builder(where, max_depth);
  Json::sax_parse(text, &builder);
  return builder.take();
}

std::string shortened(const Json& value) {
  // big values are not written out only to be cut
  if (value.is_structured() && value.size() > 8)
    return fmt::format("{} of {} {}", value.type_name(), value.size(), value.is_object() ? "members" : "elements");
  const std::string text = value.dump();
  return text.size() <= 80 ? text : replace_invalid_utf8(text.substr(0, 77)) + "...";
}

}  // namespace heddle
