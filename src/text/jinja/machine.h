// Runs a parsed template once. All state of a rendering is here; the Ast is shared and never changes.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/functions.h"

namespace heddle::text::jinja {

struct Scope {
  Value* find(NameId name) {
    for (auto& [id, value] : variables)
      if (id == name) return &value;
    return nullptr;
  }
  void set(NameId name, Value value) {
    if (Value* there = find(name))
      *there = std::move(value);
    else
      variables.emplace_back(name, std::move(value));
  }

  Scope* parent = nullptr;
  bool kept = false;  // not to be used again: something still refers to it
  std::vector<std::pair<NameId, Value>> variables;
};

// Walks over anything iterable. Holds the value it walks over.
class Walk {
 public:
  Walk(Machine& machine, Value value);  // throws Error for what cannot be iterated
  bool next(Value& item);

 private:
  Machine& machine_;
  Value value_;
  size_t at_ = 0;
};

class Loop;

class Machine {
 public:
  Machine(const Ast& ast, const TemplateLimits& limits, Dict variables, int64_t now);
  Text run();
  int64_t now() const { return now_; }

  Sandbox sandbox;

  // Texts of values (print.cpp).
  std::string print(const Value& value);  // str()
  std::string repr(const Value& value);   // repr()
  Value text_of(const Value& value);      // the value itself when it is a string, else print()
  void print_to(std::string& out, const Value& value);
  void print_to(Text& out, const Value& value);
  void repr_to(std::string& out, const Value& value);

  // Comparison (operators.cpp).
  bool equal(const Value& a, const Value& b);
  bool less(const Value& a, const Value& b);  // throws Error for what has no order
  bool contains(const Value& container, const Value& value);

  // Attributes and items (access.cpp); what is not there is undefined.
  Value attribute(const Value& of, std::string_view name);
  Value item(const Value& of, const Value& key);
  Value slice(const Value& of, const Value& from, const Value& to, const Value& step);  // missing: not given

  // Calls (call.cpp).
  Value call(const Value& callee, Args args);
  Value call(const Function& function, Args args);
  int64_t length(const Value& value);  // throws Error for what has none
  std::vector<Value> to_vector(const Value& iterable);
  Value iterator(std::string_view type, Iterator::Next next);

  Value operate(std::string_view sign, const Value& a, const Value& b);  // operators.cpp

  // For macros and recursive loops: runs a body in a new scope inside `parent` and returns what it wrote.
  Text render(const Body& body, Scope& scope);
  Text render_loop(const Stmt& stmt, const Value& items, Scope& scope, int64_t depth);
  Value evaluate(const Expr& expr, Scope& scope);

  // A scope for one body; kept after it when a macro refers to it.
  class Inner {
   public:
    Inner(Machine& machine, Scope* parent);
    ~Inner();
    Inner(const Inner&) = delete;
    Scope& operator*() { return *scope_; }

   private:
    Machine& machine_;
    std::unique_ptr<Scope> scope_;
  };

 private:
  friend class Loop;
  enum class Flow : uint8_t { next, stop, skip };

  Flow execute(const Body& body, Scope& scope);
  Flow execute(const Stmt& stmt, Scope& scope);
  Flow execute_branch(const Stmt& stmt, Scope& scope);
  void execute_loop(const Stmt& stmt, const Value& items, Scope& scope, int64_t depth);
  Flow execute_with(const Stmt& stmt, Scope& scope);
  void execute_call(const Stmt& stmt, Scope& scope);
  static void keep(Scope& scope);  // and those around it: a macro or a recursive loop may come back to them
  Value make_macro(const std::shared_ptr<const MacroSpec>& spec, Scope& scope);
  // The output of a body in its own scope; a break or continue in it takes effect outside.
  Text capture(const Body& body, Scope& parent, Flow& flow);
  void assign(const Target& target, Value value, Scope& scope);
  void write(std::string_view text) { sandbox.append_own(*out_, text); }

  Value lookup(NameId name, Scope& scope);
  Value evaluate_inner(const Expr& expr, Scope& scope);
  Value evaluate_list(const Expr& expr, Scope& scope);
  Value evaluate_dict(const Expr& expr, Scope& scope);
  Value evaluate_slice(const Expr& expr, Scope& scope);
  Value evaluate_call(const Expr& expr, Scope& scope);
  Value evaluate_filter(const Expr& expr, Scope& scope, Value value);
  Value evaluate_filters(const Expr& expr, Scope& scope, Value text);
  Value evaluate_compare(const Expr& expr, Scope& scope);
  Value evaluate_concat(const Expr& expr, Scope& scope);
  Value evaluate_unary(const Expr& expr, Scope& scope);
  Args evaluate_args(const CallArgs& args, Scope& scope);
  bool compare(std::string_view sign, const Value& a, const Value& b);

  const Ast& ast_;
  std::vector<Value> context_;  // by NameId: variables and functions from outside; missing where there is none
  int64_t now_;
  Place at_;  // of what is being evaluated, for errors
  Text* out_ = nullptr;
  std::vector<std::unique_ptr<Scope>> spare_scopes_, kept_scopes_;
};

[[noreturn]] void fail_undefined(const Value& value);
// Throws the reason a value is undefined, if it is.
inline void need_defined(const Value& value) {
  if (value.is(Kind::undefined)) [[unlikely]]
    fail_undefined(value);
}
std::string escape_markup(std::string_view text);

// The variable `loop` inside a for.
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

// A macro, with the scope in which it was defined.
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
