// Values with state. The rendering (Sandbox) owns them and values only point to them, so that cycles are freed and no
// destructor walks a chain of them.
#pragma once
#include <functional>
#include <string>

#include "text/jinja/value.h"

namespace heddle::text::jinja {

struct Args;
class Machine;

class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type() const = 0;
  // Sets `found` when the object has such an attribute.
  virtual bool attribute(Machine&, std::string_view, Value&) { return false; }
  virtual bool callable() const { return false; }
  virtual Value call(Machine& machine, Args& args);
  virtual std::string print(Machine&) const;  // refused by default: Python prints an address
  virtual bool iterable() const { return false; }
  virtual bool next(Machine&, Value&) { return false; }  // of an iterator; false at the end
};

// map, select, reverse and others: items are computed on demand, once.
class Iterator : public Object {
 public:
  using Next = std::function<bool(Machine&, Value&)>;
  Iterator(std::string_view type, Next next) : type_(type), next_(std::move(next)) {}
  std::string_view type() const override { return type_; }
  bool iterable() const override { return true; }
  bool next(Machine& machine, Value& value) override;

 private:
  std::string_view type_;
  Next next_;
  bool running_ = false;
};

class Namespace : public Object {
 public:
  std::string_view type() const override { return "Namespace"; }
  bool attribute(Machine&, std::string_view name, Value& found) override;
  std::string print(Machine&) const override;

  Dict members;
};

}  // namespace heddle::text::jinja
