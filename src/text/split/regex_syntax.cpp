// The same letter means different things: \h is a hex digit there and a space here, \s, \w and \b know other
// characters, ^ and $ are about lines, x{2}+ is not a possessive repeat, and classes can be nested and intersected.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/split/regex.h"

namespace heddle::text {

namespace {

// The insides of classes.
constexpr std::string_view spaces =  // the property White_Space
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view not_spaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
// Alphabetic (with circled letters), marks, decimal digits, connectors; and Latin-1's superscripts and fractions.
constexpr std::string_view words =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
    R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view hex_digits = "0-9A-Fa-f";
constexpr std::string_view not_hex_digits = R"(\x00-\x2f\x3a-\x40\x47-\x60\x67-\x{10ffff})";

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> long_names{{
    {"Letter", "L"},
    {"Mark", "M"},
    {"Number", "N"},
    {"Punctuation", "P"},
    {"Symbol", "S"},
    {"Separator", "Z"},
    {"Other", "C"},
    {"Digit", "Nd"},
    {"Alpha", "Alphabetic"},
    {"Upper", "Uppercase"},
    {"Lower", "Lowercase"},
    {"Space", "White_Space"},
}};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error("pattern {}, at {}: {}", in_quotes(in_, 200), at_, what);
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  char take() {
    if (at_ == in_.size()) fail("the pattern ends in the middle");
    return in_[at_++];
  }
  std::string_view take_character() {
    const std::string_view character = in_.substr(at_, code_point_at(in_, at_).bytes);
    at_ += character.size();
    return character;
  }

  void step() {
    switch (in_[at_]) {
      case '\\':
        atom_ = out_.size();
        ++at_;
        out_ += escape(false);
        break;
      case '[':
        atom_ = out_.size();
        ++at_;
        out_ += class_expression(0);
        break;
      case '(':
        begin_group();
        break;
      case ')':
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        out_ += take();
        break;
      case '*':
      case '+':
      case '?':
        out_ += take();
        if (next_is("+") || next_is("?")) out_ += take();
        break;
      case '{':
        if (!interval()) {
          atom_ = out_.size();
          ++at_;
          out_ += "\\{";
        }
        break;
      default:
        atom_ = out_.size();
        out_ += take_character();
    }
  }

  void begin_group() {
    groups_.push_back(out_.size());
    out_ += take();
    if (!next_is("?")) return;
    out_ += take();
    size_t end = at_;
    while (end < in_.size() && std::string_view("imx-").find(in_[end]) != std::string_view::npos) ++end;
    if (end == at_ || end == in_.size() || (in_[end] != ':' && in_[end] != ')')) return;
    for (; at_ < end; ++at_) out_ += in_[at_] == 'm' ? 's' : in_[at_];  // "." matches line ends
  }

  // {2}, {2,}, {2,3} and {,3}; false when it is none. A "+" after it repeats it, and so does "?" after {2}.
  bool interval() {
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return false;
    const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = inside.find(',');
    const std::string_view low = inside.substr(0, comma);
    const std::string_view high = comma == std::string_view::npos ? "" : inside.substr(comma + 1);
    const auto is_number = [](std::string_view text) {
      return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (!is_number(low) || !is_number(high) || (low.empty() && high.empty())) return false;
    at_ = end + 1;
    out_ += '{';
    out_ += low.empty() ? "0" : low;
    if (comma != std::string_view::npos) out_.append(",").append(high);
    out_ += '}';
    if (next_is("+") || (next_is("?") && comma == std::string_view::npos)) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    } else if (next_is("?")) {
      out_ += take();
    }
    return true;
  }

  std::string escape(bool in_class) {
    const auto items = [&](std::string_view inside) {
      return in_class ? std::string(inside) : fmt::format("[{}]", inside);
    };
    if (at_ == in_.size()) fail("the pattern ends after a backslash");
    const std::string_view character = take_character();
    switch (character[0]) {
      case 's':
        return items(spaces);
      case 'S':
        return items(not_spaces);
      case 'w':
        return items(words);
      case 'W':
        if (in_class) fail("\\W in a class is not supported");
        return fmt::format("[^{}]", words);
      case 'd':
        return "\\p{Nd}";
      case 'D':
        return "\\P{Nd}";
      case 'h':
        return items(hex_digits);
      case 'H':
        return items(not_hex_digits);
      case 'v':
        return "\\x0b";
      case 'b':
        return in_class ? "\\x08" : fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", words);
      case 'B':
        return fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", words);
      case 'u': {
        const std::string_view digits = in_.substr(at_, 4);
        at_ += digits.size();
        return fmt::format("\\x{{{}}}", digits);
      }
      case 'p':
      case 'P':
        if (next_is("{")) return fmt::format("\\{}{{{}}}", character, property());
        [[fallthrough]];
      default:
        return fmt::format("\\{}", character);
    }
  }

  std::string property() {
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) fail("a property without its closing brace");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    std::string out;
    if (name.starts_with("^")) {
      out = "^";
      name.remove_prefix(1);
    }
    const auto known =
        std::find_if(long_names.begin(), long_names.end(), [&](auto& pair) { return pair.first == name; });
    if (known != long_names.end()) return out.append(known->second);
    if (name.size() > 2 && is_script(name)) out += "sc:";
    return out.append(name);
  }

  // What follows "[" up to "]", as something that matches one character.
  std::string class_expression(size_t depth) {
    if (depth > 20) fail("classes nested too deep");
    const bool negated = next_is("^");
    if (negated) ++at_;
    std::vector<std::string> operands;  // of "&&"
    std::string items;
    std::vector<std::string> nested;
    const auto end_operand = [&] {
      if (nested.empty()) {
        operands.push_back(fmt::format("[{}]", items));
      } else {
        if (!items.empty()) nested.push_back(fmt::format("[{}]", items));
        std::string alternatives;
        for (const std::string& one : nested) alternatives += (alternatives.empty() ? "" : "|") + one;
        operands.push_back(nested.size() == 1 ? alternatives : fmt::format("(?:{})", alternatives));
      }
      items.clear();
      nested.clear();
    };
    if (next_is("]")) {  // first of all it is a character
      ++at_;
      items = "\\]";
    }
    for (;;) {
      if (next_is("]")) {
        ++at_;
        break;
      }
      if (next_is("&&")) {
        at_ += 2;
        end_operand();
      } else if (next_is("[:")) {
        const size_t end = in_.find(":]", at_);
        if (end == std::string_view::npos) fail("[: without :]");
        items += in_.substr(at_, end + 2 - at_);
        at_ = end + 2;
      } else if (next_is("[")) {
        ++at_;
        nested.push_back(class_expression(depth + 1));
      } else if (next_is("\\")) {
        ++at_;
        const bool is_set = at_ < in_.size() && std::string_view("sSwhHdDpP").find(in_[at_]) != std::string_view::npos;
        items += escape(true);
        if (is_set && next_is("-") && !next_is("-]")) {  // no range begins with a set
          ++at_;
          items += "\\-";
        }
      } else {
        if (at_ == in_.size()) fail("a class without its closing bracket");
        items += take_character();
      }
    }
    if (operands.empty() && nested.empty()) return fmt::format("[{}{}]", negated ? "^" : "", items);
    end_operand();
    std::string all = operands[0];
    if (operands.size() > 1) {
      all = "(?:";
      for (size_t i = 1; i < operands.size(); ++i) all += fmt::format("(?={})", operands[i]);
      all += operands[0] + ")";
    }
    return negated ? fmt::format("(?:(?!{})(?s:.))", all) : all;
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last thing that can be repeated begins in out_
  std::vector<size_t> groups_;  // where the open ones begin
};

}  // namespace

std::string to_pcre2(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace heddle::text
