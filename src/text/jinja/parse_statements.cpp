// Tags.
#include <algorithm>

#include "text/jinja/parser.h"

namespace heddle::text::jinja {
namespace {

// Sets a variable while the body of a macro or loop is parsed.
template <class T>
class Set {
 public:
  Set(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Set() { variable_ = before_; }
  Set(const Set&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace

Ast parse(std::string_view source, uint32_t max_depth) { return Parser(tokenize(source), max_depth).run(); }

Ast Parser::run() {
  Ast ast;
  check(name_id("loop") == Ast::loop, "loop is the first name");
  ast.body = body({});
  ast.names = std::move(names_);
  return ast;
}

Body Parser::body(Words ends) {
  const Deeper deeper(*this);
  Body statements;
  for (;;) {
    const Place at = now().at;
    auto stmt = std::make_unique<Stmt>();
    stmt->at = at;
    if (is(Token::Kind::end)) {
      if (ends.size() != 0) unexpected(fmt::format("the tag \"{}\"", *(ends.end() - 1)));
      return statements;
    }
    if (is(Token::Kind::text)) {
      stmt->text = take().text;
    } else if (is(Token::Kind::print_begin)) {
      ++at_;
      stmt->kind = Stmt::Kind::print;
      stmt->value = tuple();
      expect(Token::Kind::print_end, "\"}}\"");
    } else {
      ++at_;
      if (is_word(ends)) return statements;
      stmt = statement();
      end_tag();
    }
    statements.push_back(std::move(stmt));
  }
}

Body Parser::block(Words ends) {
  skip_sign(":");
  end_tag();
  return body(ends);
}
Body Parser::whole_block(std::string_view end) {
  Body statements = block({end});
  ++at_;
  return statements;
}

std::unique_ptr<Stmt> Parser::statement() {
  auto stmt = std::make_unique<Stmt>();
  stmt->at = now().at;
  const std::string tag = expect(Token::Kind::name, "the name of a tag").text;
  if (tag == "if") {
    branch(*stmt);
  } else if (tag == "for") {
    loop(*stmt);
  } else if (tag == "set") {
    set(*stmt);
  } else if (tag == "with") {
    with(*stmt);
  } else if (tag == "macro") {
    macro(*stmt);
  } else if (tag == "call") {
    call_block(*stmt);
  } else if (tag == "filter") {
    filter_block(*stmt);
  } else if (tag == "generation") {
    generation(*stmt);
  } else if (tag == "print") {
    print_tag(*stmt);
  } else if (tag == "do") {
    stmt->kind = Stmt::Kind::evaluate;
    stmt->value = tuple();
  } else if (tag == "break") {
    loop_control(*stmt, Stmt::Kind::stop);
  } else if (tag == "continue") {
    loop_control(*stmt, Stmt::Kind::skip);
  } else {
    static constexpr std::string_view refused[] = {"include", "import", "from", "extends", "block", "autoescape"};
    if (std::find(std::begin(refused), std::end(refused), tag) != std::end(refused))
      fail_at(stmt->at, "the tag \"{}\" has no place in a chat template, which is one file", tag);
    fail_at(stmt->at, "there is no tag \"{}\" that could stand here", tag);
  }
  return stmt;
}

void Parser::branch(Stmt& stmt) {
  stmt.kind = Stmt::Kind::branch;
  const Set soft(may_be_unknown_, true);
  for (;;) {
    Stmt::Branch& one = stmt.branches.emplace_back();
    one.condition = tuple(false);
    one.body = block({"elif", "else", "endif"});
    if (skip_word("elif")) continue;
    if (!skip_word("else")) break;
    stmt.branches.emplace_back().body = block({"endif"});
    break;
  }
  ++at_;
}

void Parser::loop(Stmt& stmt) {
  stmt.kind = Stmt::Kind::loop;
  stmt.target = target({"in"});
  expect_word("in");
  stmt.value = tuple(false, {"recursive"});
  const Set hard(may_be_unknown_, false);
  if (skip_word("if")) stmt.condition = expression();
  stmt.recursive = skip_word("recursive");
  {
    const Set inside(loops_, loops_ + 1);
    stmt.body = block({"endfor", "else"});
  }
  if (skip_word("else")) stmt.otherwise = block({"endfor"});
  ++at_;
}

void Parser::set(Stmt& stmt) {
  stmt.target = target({}, true);
  if (skip_sign("=")) {
    stmt.kind = Stmt::Kind::set;
    stmt.value = tuple();
    return;
  }
  stmt.kind = Stmt::Kind::set_block;
  while (skip_sign("|")) stmt.value = filter(std::move(stmt.value));
  const Set hard(may_be_unknown_, false);
  stmt.body = whole_block("endset");
}

void Parser::with(Stmt& stmt) {
  stmt.kind = Stmt::Kind::with;
  const Set hard(may_be_unknown_, false);
  while (!is(Token::Kind::tag_end)) {
    if (!stmt.targets.empty()) expect_sign(",");
    stmt.targets.push_back(target());
    expect_sign("=");
    stmt.values.push_back(expression());
  }
  stmt.body = whole_block("endwith");
}

NameId Parser::parameter_name(std::string& text) {
  const Token name = expect(Token::Kind::name, "a name");
  static constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(constants), std::end(constants), name.text) != std::end(constants))
    fail_at(name.at, "\"{}\" cannot be the name of a variable", name.text);
  text = name.text;
  return name_id(text);
}

void Parser::parameters(MacroSpec& spec) {
  expect_sign("(");
  while (!is_sign(")")) {
    if (!spec.parameters.empty()) expect_sign(",");
    Parameter one;
    const Place at = now().at;
    one.name = parameter_name(one.text);
    for (const Parameter& other : spec.parameters)
      if (other.name == one.name) fail_at(at, "the parameter \"{}\" is there twice", one.text);
    if (skip_sign("="))
      one.standard = expression();
    else if (!spec.parameters.empty() && spec.parameters.back().standard)
      fail_at(at, "the parameter \"{}\" needs a default, as the one before it has one", one.text);
    spec.parameters.push_back(std::move(one));
  }
  ++at_;
}

void Parser::macro_body(MacroSpec& spec, std::string_view end) {
  const Set outside(loops_, 0u);
  const Set hard(may_be_unknown_, false);
  macros_.push_back(&spec);
  spec.body = whole_block(end);
  macros_.pop_back();
}

void Parser::macro(Stmt& stmt) {
  stmt.kind = Stmt::Kind::macro;
  auto spec = std::make_shared<MacroSpec>();
  stmt.target.name = parameter_name(spec->name);
  parameters(*spec);
  macro_body(*spec, "endmacro");
  stmt.macro = std::move(spec);
}

void Parser::call_block(Stmt& stmt) {
  stmt.kind = Stmt::Kind::call;
  auto spec = std::make_shared<MacroSpec>();
  spec->name = "caller";
  if (is_sign("(")) parameters(*spec);
  const Place at = now().at;
  stmt.value = expression();
  if (stmt.value->kind != Expr::Kind::call) fail_at(at, "expected a call of a macro");
  macro_body(*spec, "endcall");
  stmt.macro = std::move(spec);
}

void Parser::filter_block(Stmt& stmt) {
  stmt.kind = Stmt::Kind::filter_block;
  do stmt.value = filter(std::move(stmt.value));
  while (skip_sign("|"));
  const Set hard(may_be_unknown_, false);
  stmt.body = whole_block("endfilter");
}

// Marks the model's own output for training; for rendering it is only a scope.
void Parser::generation(Stmt& stmt) {
  stmt.kind = Stmt::Kind::scope;
  const Set outside(loops_, 0u);
  const Set hard(may_be_unknown_, false);
  stmt.body = whole_block("endgeneration");
}

void Parser::print_tag(Stmt& stmt) {
  stmt.kind = Stmt::Kind::scope;
  while (!is(Token::Kind::tag_end)) {
    if (!stmt.body.empty()) expect_sign(",");
    auto one = std::make_unique<Stmt>();
    one->kind = Stmt::Kind::print;
    one->at = now().at;
    one->value = expression();
    stmt.body.push_back(std::move(one));
  }
}

void Parser::loop_control(Stmt& stmt, Stmt::Kind kind) {
  if (loops_ == 0) fail_at(stmt.at, "\"break\" and \"continue\" need a loop around them");
  stmt.kind = kind;
}

Target Parser::target(Words ends, bool with_member) {
  Target result;
  result.at = now().at;
  bool is_tuple = false;
  for (;;) {
    if (is(Token::Kind::tag_end) || is_sign(")") || is_word(ends)) break;
    result.items.push_back(one_target(with_member));
    if (!skip_sign(",")) break;
    is_tuple = true;
  }
  if (result.items.empty()) unexpected("the name of a variable");
  if (!is_tuple) {
    Target only = std::move(result.items[0]);
    return only;
  }
  result.kind = Target::Kind::tuple;
  return result;
}

Target Parser::one_target(bool with_member) {
  const Deeper deeper(*this);
  Target result;
  result.at = now().at;
  if (skip_sign("(")) {
    result = target({}, false);
    expect_sign(")");
    return result;
  }
  std::string name;
  result.name = parameter_name(name);
  if (with_member && skip_sign(".")) {
    result.kind = Target::Kind::member;
    result.member = expect(Token::Kind::name, "the name of a member").text;
  } else if (name == "loop" && !with_member) {
    fail_at(result.at, "\"loop\" cannot be assigned to: it is the loop itself");
  }
  return result;
}

}  // namespace heddle::text::jinja
