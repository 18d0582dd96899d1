// The variable `loop` inside a for, and macros.
#pragma once
#include <memory>
#include <optional>

#include "text/jinja/machine.h"

namespace heddle::text::jinja {

class Loop : public Object {
 public:
  using Next = std::function<bool(Value&)>;  // the next item that passes the loop's condition
  Loop(const Stmt& stmt, Scope& scope, int64_t depth, Next next, std::optional<int64_t> length)
      : stmt_(stmt), scope_(&scope), depth_(depth), length_(length), next_(std::move(next)) {}

  bool advance(Value& item);  // to the next item; false after the last
  void finish() { next_ = nullptr; }

  std::string_view type() const override { return "LoopContext"; }
  bool attribute(Machine& machine, std::string_view name, Value& found) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;  // of a recursive loop: the loop over other items
  Value cycle(const Args& args) const;
  Value changed(Machine& machine, Args& args);

 private:
  bool peek();
  int64_t length();

  const Stmt& stmt_;
  Scope* scope_;  // around the loop
  int64_t depth_, index_ = -1;
  std::optional<int64_t> length_;
  Next next_;
  std::vector<Value> ahead_;  // items read before their turn, the next one last
  Value before_, current_, changed_;
};

class Macro : public Object {
 public:
  Macro(std::shared_ptr<const MacroSpec> spec, Scope& scope) : spec_(std::move(spec)), scope_(&scope) {}
  std::string_view type() const override { return "Macro"; }
  bool attribute(Machine& machine, std::string_view name, Value& found) override;
  bool callable() const override { return true; }
  Value call(Machine& machine, Args& args) override;
  std::string print(Machine& machine) const override;

 private:
  std::shared_ptr<const MacroSpec> spec_;
  Scope* scope_;  // where it was defined; kept by the machine
};

}  // namespace heddle::text::jinja
