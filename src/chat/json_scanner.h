// Follows a JSON text byte by byte: whether a byte can follow, how deep it stands, and where the value ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::chat {

// Strict but for control characters in strings, which models write.
class JsonScanner {
 public:
  bool take(char c);  // false, and as it was: the byte cannot follow
  bool done() const { return state_ == State::done; }
  size_t depth() const { return open_.size(); }
  bool in_string() const { return state_ == State::string || state_ == State::escape || state_ == State::hex; }

 private:
  enum class State : uint8_t {
    value,
    value_or_end,  // behind [
    key_or_end,    // behind {
    key,
    colon,
    comma_or_end,
    string,
    escape,
    hex,
    literal,
    minus,  // of a number
    zero,
    whole,
    point,
    fraction,
    e,
    e_sign,
    exponent,
    done,
  };
  static constexpr size_t max_depth = 64;

  bool begin_value(char c);
  bool in_number(char c);
  bool close(char c);
  void end_value() { state_ = open_.empty() ? State::done : State::comma_or_end; }

  State state_ = State::value;
  bool is_key_ = false;    // the string
  uint8_t left_ = 0;       // hex digits
  const char* rest_ = "";  // of a literal
  std::string open_;       // brackets
};

}  // namespace heddle::chat
