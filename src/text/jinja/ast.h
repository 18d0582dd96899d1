// A parsed template. Names of variables are numbers, so that finding one compares numbers.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace heddle::text::jinja {

struct Expr;
struct Stmt;
struct Function;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;
using NameId = uint32_t;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest, named_rest;  // *rest, **named_rest
};

struct Expr {
  enum class Kind : uint8_t {
    constant,   // value
    name,       // name
    list,       // of
    tuple,      // of
    dict,       // of: key, value, key, value
    attribute,  // of[0] . text
    item,       // of[0] [ of[1] ]
    slice,      // of[0] [ of[1] : of[2] : of[3] ], of which the last three may be null
    call,       // of[0] (args)
    filter,     // of[0] | text (args); without of[0] in a filter block, which gives its text
    test,       // of[0] is text (args)
    negate,     // -of[0]
    plus,       // +of[0]
    inverse,    // not of[0]
    binary,     // of[0] sign of[1]
    compare,    // of[0] signs[0] of[1] signs[1] of[2] ...
    both,       // of[0] and of[1]
    either,     // of[0] or of[1]
    concat,     // of[0] ~ of[1] ~ ...
    choice,     // of[1] if of[0] else of[2], which may be null
  };
  Kind kind = Kind::constant;
  Place at;
  uint32_t depth = 1;
  NameId name = 0;
  std::string text;
  std::vector<std::string> signs;
  Value value;
  std::vector<ExprPtr> of;
  CallArgs args;
  const Function* function = nullptr;  // of a filter or test; null when there is none of that name
};

struct Target {
  enum class Kind : uint8_t { name, member, tuple } kind = Kind::name;
  Place at;
  NameId name = 0;
  std::string member;         // name.member, of a namespace
  std::vector<Target> items;  // of a tuple
};

struct Parameter {
  NameId name = 0;
  std::string text;
  ExprPtr standard;  // its default, or null
};

struct MacroSpec {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Set if the body mentions varargs, kwargs, caller.
  std::optional<NameId> rest, named, caller;
};

struct Stmt {
  enum class Kind : uint8_t {
    text,          // text
    print,         // value
    branch,        // branches
    loop,          // target in value if condition: body, otherwise
    set,           // target = value
    set_block,     // target = body, through the filter `value` if there is one
    with,          // targets = values: body
    macro,         // macro, to be named target
    call,          // value (a call) with the caller `macro`
    filter_block,  // body through the filter `value`
    scope,         // body
    evaluate,      // value
    stop,          // break
    skip,          // continue
  };
  struct Branch {
    ExprPtr condition;  // null for else
    Body body;
  };
  Kind kind = Kind::text;
  Place at;
  std::string text;
  ExprPtr value, condition;
  Target target;
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  Body body, otherwise;
  std::vector<Branch> branches;
  std::shared_ptr<const MacroSpec> macro;
  bool recursive = false;
};

struct Ast {
  static constexpr NameId loop = 0;  // the first of the names
  Body body;
  std::vector<std::string> names;  // by NameId
};

}  // namespace heddle::text::jinja
