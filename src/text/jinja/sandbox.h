// The limits of one rendering: steps, depth, sizes. Every container and string of a template is created here.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/object.h"
#include "text/jinja/value.h"
#include "text/template.h"

namespace heddle::text::jinja {

class Sandbox {
 public:
  explicit Sandbox(const TemplateLimits& limits) : limits_(limits), steps_left_(limits.steps) {}
  Sandbox(const Sandbox&) = delete;

  void step(uint64_t count = 1) {
    if (count > steps_left_) [[unlikely]]
      out_of_steps();
    steps_left_ -= count;
  }
  // Called before that many bytes (items) are allocated. 64 bytes cost a step, so steps also bound the memory of all
  // values together.
  void bytes(size_t count) {
    if (count > limits_.output) [[unlikely]]
      too_large(count);
    step(count / 64);
  }
  // Before a text is searched: std::string compares at every place, so the worst case is the product.
  void search(std::string_view text, std::string_view what) {
    step(text.size() / 1024 * std::min(what.size(), text.size()));
  }
  void items(size_t count) { bytes(count > limits_.output ? count : count * sizeof(Value)); }
  void append(std::string& out, std::string_view text) {
    if (text.size() > limits_.output - std::min(out.size(), limits_.output)) [[unlikely]]
      too_large(out.size() + text.size());
    step(text.size() / 64);
    out += text;
  }

  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items) { return sequence(Kind::list, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::tuple, std::move(items)); }
  Value pair(Value first, Value second);
  Value group(Value first, Value second);
  Value dict(Dict dict);  // sets its depth
  template <class T, class... A>
  T* object(A&&... args) {
    bytes(sizeof(T) + 64);
    auto created = std::make_unique<T>(std::forward<A>(args)...);
    T* at = created.get();
    objects_.push_back(std::move(created));
    return at;
  }
  void check_depth(uint32_t depth) const {
    if (depth > limits_.depth) [[unlikely]]
      too_deep();
  }

  // Nested evaluation, of source and calls together: what the machine's own stack has to bear.
  class Deeper {
   public:
    explicit Deeper(Sandbox& sandbox) : sandbox_(sandbox) {
      if (++sandbox_.depth_ > 5 * sandbox_.limits_.depth) [[unlikely]] {
        --sandbox_.depth_;
        sandbox_.too_deep();
      }
    }
    ~Deeper() { --sandbox_.depth_; }
    Deeper(const Deeper&) = delete;

   private:
    Sandbox& sandbox_;
  };
  const TemplateLimits& limits() const { return limits_; }

 private:
  Value sequence(Kind kind, std::vector<Value> items);
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void too_large(size_t size) const;
  [[noreturn]] void too_deep() const;

  TemplateLimits limits_;
  uint64_t steps_left_;
  uint32_t depth_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace heddle::text::jinja
