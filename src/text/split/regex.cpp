#include "text/split/regex.h"

#include <pcre2.h>

#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::text {

namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

std::string message(int error) {
  char text[256];
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

struct CompileError {
  int number = 0;
  size_t at = 0;
};

Owned<pcre2_code> compile(std::string_view pattern, CompileError& error) {
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  return Owned<pcre2_code>(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error.number, &error.at,
                                         context.get()));
}

// What matching needs for a while. One per thread: making it takes longer than matching a word.
struct Scratch {
  Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};  // where the whole match lies
  Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
  Owned<pcre2_jit_stack> stack{pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr)};

  Scratch() {
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    pcre2_set_heap_limit(context.get(), 256 << 10);  // KiB, of the interpreter
  }
};

// Patterns of which PCRE2 takes time quadratic in the text, and what has the same matches in linear time.
std::string_view linear(std::string_view pattern) {
  // Of a run of spaces, only the first can begin a match: if there is an end of line in the run, the match from the
  // first space goes up to the last such end, and no later match begins in the rest.
  if (pattern == R"(\s+$)") return R"((?<!\s)\s+$)";
  // The groups of three at the end of a run of digits. The first match of a run is among its first three digits; the
  // next ones follow it at distances of three, which \G finds without looking at the rest of the run again.
  if (pattern == patterns::before_three_digits) return R"(\G(?<=\d)\d\d\K(?=\d)|(?<!\d\d\d)(?=(?:\d{3})++(?!\d)))";
  if (pattern == patterns::up_to_three_digits) return R"(\G(?<=\d)\d{3}|(?<!\d)\d{1,3}(?=(?:\d{3})*+\b))";
  return pattern;
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;

  explicit Code(std::string_view pattern) {
    if (const size_t invalid = find_invalid_utf8(pattern); invalid != std::string_view::npos)
      throw Error("pattern {}, at {}: not UTF-8", in_quotes(pattern, 200), invalid);
    const std::string translated = to_pcre2(linear(pattern));
    CompileError error;
    code = compile(translated, error);
    if (!code)
      throw Error("pattern {}: {} (at {} of {})", in_quotes(pattern, 200), message(error.number), error.at,
                  in_quotes(translated, 500));
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, the interpreter matches
  }

  // The first match in `subject` from `at` on.
  bool find(std::string_view subject, size_t at, size_t& begin, size_t& end, const std::string& pattern) const {
    thread_local const Scratch scratch;
    const auto match = [&](uint32_t options) {
      return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                         options | PCRE2_NO_UTF_CHECK, scratch.data.get(), scratch.context.get());
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0)
      throw Error("pattern {}, on a text of {} bytes: {}", in_quotes(pattern, 200), subject.size(), message(result));
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.data.get());
    begin = offsets[0];
    end = offsets[1];
    // \K in a lookahead can put the beginning behind the end
    if (begin > end || begin < at)
      throw Error("pattern {}: a match that ends before it begins", in_quotes(pattern, 200));
    return true;
  }
};

Regex::Regex(std::string_view pattern, Engine engine)
    : pattern_(pattern), scanner_(engine == Engine::fastest ? find_scanner(pattern) : nullptr) {
  if (!scanner_) code_ = std::make_unique<const Code>(pattern);
}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex::Cursor::Cursor(const Regex& regex, std::string_view text)
    : regex_(regex), text_(text), end_(std::string_view::npos) {
  enter_valid(0);
}

// `at` is the beginning of the text, or where valid UTF-8 ended.
void Regex::Cursor::enter_valid(size_t at) {
  while (at < text_.size()) {
    const CodePoint point = code_point_at(text_, at);
    if (point.valid) break;
    at += point.bytes;
  }
  const size_t invalid = find_invalid_utf8(text_.substr(at));
  at_ = valid_begin_ = at;
  valid_end_ = invalid == std::string_view::npos ? text_.size() : at + invalid;
}

bool Regex::Cursor::next() {
  while (!next_in_valid()) {
    if (valid_end_ == text_.size()) return false;
    enter_valid(valid_end_);
  }
  return true;
}

bool Regex::Cursor::next_in_valid() {
  const char* const subject = text_.data() + valid_begin_;
  const size_t size = valid_end_ - valid_begin_;
  if (regex_.scanner_) {
    if (at_ == valid_end_) return false;
    begin_ = at_;
    at_ = end_ = valid_begin_ + regex_.scanner_(subject, at_ - valid_begin_, size);
    return true;
  }
  while (at_ <= valid_end_) {
    size_t begin = 0, end = 0;
    if (!regex_.code_->find({subject, size}, at_ - valid_begin_, begin, end, regex_.pattern_)) break;
    begin += valid_begin_;
    end += valid_begin_;
    const bool repeats = begin == end && begin == end_;
    begin_ = begin;
    end_ = end;
    at_ = end > begin ? end : end < valid_end_ ? end + code_point_at(text_, end).bytes : valid_end_ + 1;
    if (!repeats) return true;
  }
  return false;
}

bool is_script(std::string_view name) {
  CompileError error;
  return compile(fmt::format("\\p{{sc:{}}}", name), error) != nullptr;
}

}  // namespace heddle::text
