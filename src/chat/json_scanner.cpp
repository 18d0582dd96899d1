#include "chat/json_scanner.h"

#include "chat/marks.h"

namespace heddle::chat {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

bool JsonScanner::begin_value(char c) {
  switch (c) {
    case '{':
    case '[':
      if (open_.size() == max_depth) return false;
      open_ += c;
      state_ = c == '{' ? State::key_or_end : State::value_or_end;
      return true;
    case '"':
      is_key_ = false;
      state_ = State::string;
      return true;
    case 't':
      rest_ = "rue";
      break;
    case 'f':
      rest_ = "alse";
      break;
    case 'n':
      rest_ = "ull";
      break;
    case '-':
      state_ = State::minus;
      return true;
    case '0':
      state_ = State::zero;
      return true;
    default:
      if (!is_digit(c)) return false;
      state_ = State::whole;
      return true;
  }
  state_ = State::literal;
  return true;
}

bool JsonScanner::close(char c) {
  if ((c != '}' && c != ']') || open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return false;
  open_.pop_back();
  end_value();
  return true;
}

// A number ends where something else follows, which is looked at again.
bool JsonScanner::in_number(char c) {
  const auto go = [&](State next) {
    state_ = next;
    return true;
  };
  const bool e = c == 'e' || c == 'E', digit = is_digit(c);
  switch (state_) {
    case State::minus:
      return c == '0' ? go(State::zero) : digit && go(State::whole);
    case State::point:
      return digit && go(State::fraction);
    case State::e:
      return c == '+' || c == '-' ? go(State::e_sign) : digit && go(State::exponent);
    case State::e_sign:
      return digit && go(State::exponent);
    case State::whole:
      if (digit) return true;
      [[fallthrough]];
    case State::zero:
      if (c == '.') return go(State::point);
      if (e) return go(State::e);
      break;
    case State::fraction:
      if (digit) return true;
      if (e) return go(State::e);
      break;
    default:  // exponent
      if (digit) return true;
      break;
  }
  if (open_.empty()) return false;
  const State before = state_;
  end_value();
  if (take(c)) return true;
  state_ = before;
  return false;
}

bool JsonScanner::take(char c) {
  switch (state_) {
    case State::string:
      if (c == '"') {
        if (is_key_)
          state_ = State::colon;
        else
          end_value();
      } else if (c == '\\') {
        state_ = State::escape;
      }
      return true;
    case State::escape:
      if (c == 'u') {
        left_ = 4;
        state_ = State::hex;
        return true;
      }
      if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) return false;
      state_ = State::string;
      return true;
    case State::hex:
      if (!is_hex(c)) return false;
      if (--left_ == 0) state_ = State::string;
      return true;
    case State::literal:
      if (c != *rest_) return false;
      if (*++rest_ == 0) end_value();
      return true;
    case State::minus:
    case State::zero:
    case State::whole:
    case State::point:
    case State::fraction:
    case State::e:
    case State::e_sign:
    case State::exponent:
      return in_number(c);
    default:
      break;
  }
  if (is_space(c)) return state_ != State::done;
  switch (state_) {
    case State::value_or_end:
      if (c == ']') return close(c);
      [[fallthrough]];
    case State::value:
      return begin_value(c);
    case State::key_or_end:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::key:
      if (c != '"') return false;
      is_key_ = true;
      state_ = State::string;
      return true;
    case State::colon:
      if (c != ':') return false;
      state_ = State::value;
      return true;
    case State::comma_or_end:
      if (c != ',') return close(c);
      state_ = open_.back() == '{' ? State::key : State::value;
      return true;
    default:
      return false;  // done
  }
}

}  // namespace heddle::chat
